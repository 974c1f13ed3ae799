package otlp

import (
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protowire"
)

// Types of bodies.
const (
	typeBinary = "application/x-protobuf"
	typeJSON   = "application/json"
)

const (
	maxAnswer  = 64 << 10 // bytes of an answer that are read
	maxMessage = 500      // bytes of its message that are kept
)

// An answer is what an endpoint says about spans that it took.
type answer struct {
	rejected int
	message  string
}

// parseAnswer returns what an endpoint answered; readErr is why its body ended early.
func parseAnswer(resp *http.Response, body []byte, readErr error) (answer, error) {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		kind = "" // then the body is not understood
	}
	if resp.StatusCode/100 == 2 {
		// Success is what the status says. A body that can't be read adds nothing to it:
		// an attempt more would have the spans there twice.
		if readErr != nil {
			return answer{}, nil
		}
		return partial(kind, body), nil
	}
	e := &StatusError{Code: resp.StatusCode, After: retryAfter(resp.Header.Get("Retry-After"))}
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode/100 == 3 {
		e.Message = printable("it is at " + to)
		return answer{}, e
	}
	switch kind {
	case typeBinary:
		e.Message = printable(statusMessage(body))
	case typeJSON:
		var s struct{ Message string }
		if json.Unmarshal(body, &s) == nil {
			e.Message = printable(s.Message)
		}
	case "text/plain":
		e.Message = printable(string(body))
	}
	return answer{}, e
}

// partial reads an ExportTraceServiceResponse
// (https://opentelemetry.io/docs/specs/otlp/#partial-success-1). Its message is made
// together with gRPC's service, which nobody should link for two fields.
func partial(kind string, body []byte) (a answer) {
	switch kind {
	case typeBinary:
		fields(body, func(n protowire.Number, v uint64, b []byte) {
			if n != 1 {
				return
			}
			fields(b, func(n protowire.Number, v uint64, b []byte) {
				switch n {
				case 1:
					a.rejected = int(min(max(int64(v), 0), 1<<31))
				case 2:
					a.message = printable(string(b))
				}
			})
		})
	case typeJSON:
		var r struct {
			PartialSuccess struct {
				RejectedSpans json.RawMessage
				ErrorMessage  string
			}
		}
		if json.Unmarshal(body, &r) == nil {
			p := r.PartialSuccess
			n, err := strconv.ParseInt(strings.Trim(string(p.RejectedSpans), `"`), 10, 64)
			if err == nil {
				a.rejected = int(min(max(n, 0), 1<<31))
			}
			a.message = printable(p.ErrorMessage)
		}
	}
	return a
}

// statusMessage returns the message of a google.rpc.Status.
func statusMessage(body []byte) (message string) {
	fields(body, func(n protowire.Number, _ uint64, b []byte) {
		if n == 2 {
			message = string(b)
		}
	})
	return message
}

// fields calls fn with the fields of a message that are varints or bytes, until there is
// something that is no field.
func fields(b []byte, fn func(n protowire.Number, v uint64, b []byte)) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		var v uint64
		var part []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			part, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return
		}
		b = b[n:]
		fn(number, v, part)
	}
}

// printable returns what people may be shown of a text that somebody else wrote.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}

// retryAfter reads the header of that name: seconds, or a date
// (https://www.rfc-editor.org/rfc/rfc9110#field.retry-after).
func retryAfter(s string) time.Duration {
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
