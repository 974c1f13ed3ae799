package front

import (
	"net/http"
	"strings"

	"github.com/greenroomdb/greenroom/traces"
)

// Lengths of https://www.w3.org/TR/trace-context/#traceparent-header: two digits for the
// version, the ids, and two digits of flags, with a dash between them.
const (
	parentLength = 2 + 1 + 32 + 1 + 16 + 1 + 2
	traceAt      = 3
	spanAt       = traceAt + 32 + 1
	flagsAt      = spanAt + 16 + 1
)

// callerSpan returns the span that a request says it is part of, zeros if it says none.
// A malformed header is ignored, as the standard demands: a proxy in between can't make a
// call fail. The flags are ignored, too: the host records all turns, or none.
func callerSpan(r *http.Request) (traces.TraceID, traces.SpanID) {
	lines := r.Header.Values("Traceparent")
	if len(lines) != 1 {
		return traces.TraceID{}, traces.SpanID{}
	}
	trace, span, ok := parseParent(lines[0])
	if !ok {
		return traces.TraceID{}, traces.SpanID{}
	}
	return trace, span
}

// parseParent reads a traceparent. One of a later version begins as those of today do, and
// may go on behind another dash.
func parseParent(s string) (trace traces.TraceID, span traces.SpanID, ok bool) {
	if len(s) < parentLength || s[traceAt-1] != '-' || s[spanAt-1] != '-' || s[flagsAt-1] != '-' {
		return trace, span, false
	}
	version, rest := s[:traceAt-1], s[parentLength:]
	switch {
	case !lowerHex(version), version == "ff", version == "00" && rest != "", rest != "" && rest[0] != '-':
		return trace, span, false
	case !lowerHex(s[traceAt : spanAt-1]), !lowerHex(s[spanAt : flagsAt-1]), !lowerHex(s[flagsAt:parentLength]):
		return trace, span, false
	}
	trace, traceErr := traces.ParseTraceID(s[traceAt : spanAt-1])
	span, spanErr := traces.ParseSpanID(s[spanAt : flagsAt-1])
	return trace, span, traceErr == nil && spanErr == nil
}

// lowerHex says whether s has nothing but digits and the letters from a to f.
func lowerHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
