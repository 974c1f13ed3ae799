package traces

import (
	"encoding/hex"
	"fmt"
)

// A TraceID names a trace: 16 bytes, not all of them zero, as in W3C Trace Context
// (https://www.w3.org/TR/trace-context/). It prints as 32 lower-case hex digits.
type TraceID [16]byte

// A SpanID names a span: 8 bytes, not all of them zero. It prints as 16 lower-case hex
// digits.
type SpanID [8]byte

// IsZero reports whether id names no trace.
func (id TraceID) IsZero() bool { return id == TraceID{} }

// IsZero reports whether id names no span.
func (id SpanID) IsZero() bool { return id == SpanID{} }

// String returns the hex digits.
func (id TraceID) String() string { return hex.EncodeToString(id[:]) }

// String returns the hex digits.
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// ParseTraceID reads what String writes, in either case. Anything else is ErrID, and so
// is the zero id.
func ParseTraceID(s string) (id TraceID, err error) {
	if len(s) != 2*len(id) || !unhex(id[:], s) || id.IsZero() {
		return TraceID{}, fmt.Errorf("%w: %.80q is not a trace", ErrID, s)
	}
	return id, nil
}

// ParseSpanID reads what String writes, in either case. Anything else is ErrID, and so
// is the zero id.
func ParseSpanID(s string) (id SpanID, err error) {
	if len(s) != 2*len(id) || !unhex(id[:], s) || id.IsZero() {
		return SpanID{}, fmt.Errorf("%w: %.80q is not a span", ErrID, s)
	}
	return id, nil
}

func unhex(dst []byte, s string) bool {
	_, err := hex.Decode(dst, []byte(s))
	return err == nil
}
