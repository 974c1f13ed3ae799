package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

// A Value is a value of an actor, in CBOR, as a part of a message: in JSON it is converted,
// and in CBOR taken as it is. nil is undefined.
type Value host.Raw

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) { return ToJSON(host.Raw(v)) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *Value) UnmarshalJSON(b []byte) error {
	r, err := FromJSON(b)
	*v = Value(r)
	return err
}

// MarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (v Value) MarshalCBOR() ([]byte, error) { return host.Raw(v).MarshalCBOR() }

// UnmarshalCBOR implements the interface of github.com/fxamacker/cbor.
func (v *Value) UnmarshalCBOR(b []byte) error {
	*v = cbor.Keep(b)
	return nil
}

var errJSON = errors.New("wire: bad JSON")

// FromJSON returns one value in JSON as one in CBOR; see cbor.FromJSON.
func FromJSON(text []byte) (host.Raw, error) {
	v, err := cbor.FromJSON(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %w", host.ErrArgs, errJSON, err)
	}
	r, err := host.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", host.ErrArgs, err)
	}
	return r, nil
}

// ToJSON returns a value in CBOR as JSON. What JSON hasn't becomes what is nearest:
// undefined, and numbers that are none, null; bytes a text in base64; a Date a text as in
// RFC 3339, in the time zone that a time of Go has; a bigint a number; a Map an array of pairs, a Set an array; and what stands
// under another tag itself.
func ToJSON(r host.Raw) ([]byte, error) {
	if len(r) == 0 {
		return []byte("null"), nil
	}
	v, err := cbor.Decode(r)
	if err != nil {
		return nil, err
	}
	return appendJSON(make([]byte, 0, len(r)+len(r)/2), v)
}

func appendJSON(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil, cbor.Undefined:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case *big.Int:
		return v.Append(dst, 10), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return append(dst, "null"...), nil
		}
		return appendPlain(dst, v)
	case string:
		return appendPlain(dst, v)
	case []byte:
		return appendBytes(dst, v), nil
	case cbor.Uint8Array:
		return appendBytes(dst, v), nil
	case time.Time:
		return appendPlain(dst, v.Format(time.RFC3339Nano))
	case cbor.Date:
		return appendPlain(dst, v.UTC().Format(time.RFC3339Nano))
	case cbor.Tag:
		return appendJSON(dst, v.Value)
	}
	return appendNested(dst, v)
}

// appendNested appends what has others in it.
func appendNested(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case []any:
		return appendList(dst, v)
	case cbor.Set:
		return appendList(dst, v)
	case cbor.Map:
		pairs := make([]any, len(v))
		for i, p := range v {
			pairs[i] = []any{p.Key, p.Value}
		}
		return appendList(dst, pairs)
	case cbor.Object:
		dst = append(dst, '{')
		for i, m := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = appendPlain(dst, m.Name); err != nil {
				return nil, err
			}
			if dst, err = appendJSON(append(dst, ':'), m.Value); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	return nil, fmt.Errorf("wire: %T has no form in JSON", v)
}

func appendList(dst []byte, list []any) ([]byte, error) {
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendJSON(dst, v); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendBytes(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// appendPlain appends a text or a number as encoding/json writes it.
func appendPlain(dst []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	return append(dst, text...), err
}
