package otlp

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/greenroomdb/greenroom/traces"
)

// AppendJSON appends the spans in OTLP's JSON, without line feeds: the body of a request of
// OTLP/HTTP with the type application/json. Ids are in lower-case hex, integers of 64 bits
// and NaN in quotes, enums numbers. It fails only for what can't be encoded at all.
func AppendJSON(dst []byte, spans []traces.SpanData) ([]byte, error) {
	d := Proto(spans)
	if err := eachID(d, hexBytes); err != nil {
		return nil, err
	}
	b, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("otlp: JSON: %w", err)
	}
	// protojson adds blanks, not always the same ones.
	out := bytes.NewBuffer(dst)
	if err := json.Compact(out, b); err != nil {
		return nil, fmt.Errorf("otlp: JSON: %w", err)
	}
	return out.Bytes(), nil
}

// OTLP's JSON is that of protobuf, but for ids, which are in hex and not in base64
// (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding). Hex digits are digits
// of base64, too, and ids have a multiple of four of them: so there are bytes whose base64
// is an id's hex.

// hexBytes returns the bytes that are written as id is in hex.
func hexBytes(id []byte) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(hex.EncodeToString(id))
	if err != nil {
		return nil, fmt.Errorf("otlp: an id of %d bytes: %w", len(id), err)
	}
	return b, nil
}

// eachID replaces all ids.
func eachID(d *tracepb.TracesData, fn func([]byte) ([]byte, error)) (err error) {
	replace := func(id *[]byte) {
		if len(*id) > 0 && err == nil {
			*id, err = fn(*id)
		}
	}
	for _, rs := range d.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				if s == nil {
					continue
				}
				replace(&s.TraceId)
				replace(&s.SpanId)
				replace(&s.ParentSpanId)
				for _, l := range s.GetLinks() {
					if l != nil {
						replace(&l.TraceId)
						replace(&l.SpanId)
					}
				}
			}
		}
	}
	return err
}
