package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
)

// A Time is one in UTC, to the millisecond, as 2026-05-04T10:11:12.000Z; "" for none.
type Time string

// NewTime returns t, "" for the zero time.
func NewTime(t time.Time) Time {
	if t.IsZero() {
		return ""
	}
	return Time(t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// optional returns a pointer to v, nil if v is the zero value.
func optional[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// toJSON returns v in JSON, nil if JSON can't hold it.
func toJSON(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// fromCBOR returns a value in CBOR as JSON: bytes are in base64, undefined is null. It is nil if it isn't CBOR, or JSON can't hold it.
func fromCBOR(value []byte) json.RawMessage {
	v, err := cbor.Decode(value)
	if err != nil {
		return nil
	}
	return toJSON(v)
}

// fromStored returns a value in CBOR, or in JSON if it can't be that, as JSON. It is nil if it is neither.
func fromStored(value []byte) json.RawMessage {
	if j := fromCBOR(value); j != nil {
		return j
	}
	return compact(value)
}

// compact returns JSON without its blanks, nil for any other text.
func compact(text []byte) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return nil
	}
	return b.Bytes()
}

// blobJSON returns bytes as a text that has a literal of SQL in it.
func blobJSON(b []byte) json.RawMessage { return fmt.Appendf(nil, `"X'%X'"`, b) }

// CellJSON returns a value of SQLite as JSON: integers have all their digits, reals as many as it takes to read the same number back, an infinity is a number too
// large for a double, and a blob is a text with a literal of SQL in it. What isn't UTF-8 in a text is replaced.
func CellJSON(c sqlrun.Cell) json.RawMessage {
	switch c.Kind {
	case sqlrun.Null:
		return json.RawMessage("null")
	case sqlrun.Int:
		return bytes.Clone(c.Text)
	case sqlrun.Real:
		return AppendReal(nil, c.Real)
	case sqlrun.Blob:
		return blobJSON(c.Text)
	}
	return toJSON(string(c.Text))
}

// AppendReal appends a real number in JSON, from which the same number is read back. An infinity is a number too large for a double, which is how SQLite
// writes and reads it.
func AppendReal(dst []byte, f float64) []byte {
	if math.IsInf(f, 0) {
		return fmt.Appendf(dst, "%.1fe+999", math.Copysign(9, f))
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'g', -1, 64)
	if !strings.ContainsAny(string(dst[from:]), ".e") {
		dst = append(dst, ".0"...)
	}
	return dst
}
