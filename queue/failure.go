package queue

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// A Failure is what is known of the attempts at a message that failed; the zero value means
// that none is known. It is its receiver's own.
type Failure struct {
	// Code and Text are those of the last error; together they have at most 256 bytes, and
	// a longer text is cut. Code is "" for an error without one.
	Code, Text string
	// Attempts are the times at which the newest attempts began that failed, at most 8, oldest
	// first. How many there were is in Deliveries.
	Attempts []time.Time
}

// Permanent marks an error as one that no other delivery of the message helps: Nack with it makes a dead letter of the message at once,
// however often it was handed out, as does a handler (host.Type.Message, greenroom.Actor.Handle) that returns it. What is stored of the
// error stays the same. Permanent(nil) is nil. An error that workflow.Permanent has marked is the same to a queue.
func Permanent(err error) error { return errkind.Permanent(err) }

// Bounds of what a record says of attempts that failed.
const (
	maxAttempts = 8
	maxError    = 256 // of code and text together, in bytes
	maxCode     = 64
	maxSender   = 255
)

// A cause is why an attempt failed, as it is stored.
type cause struct{ code, text string }

// leaseRanOut is the cause of an attempt that had no end before its lease was over.
var leaseRanOut = cause{"lease_over", "the lease ran out"}

// causeOf returns what is stored of an error; nothing for nil.
func causeOf(err error) cause {
	if err == nil {
		return cause{}
	}
	code := cut(errkind.Code(err), maxCode)
	return cause{code, cut(err.Error(), maxError-len(code))}
}

// cut returns s in UTF-8, and of what is longer than n bytes whole characters from its beginning.
func cut(s string, n int) string {
	if s = strings.ToValidUTF8(s, "\uFFFD"); len(s) <= n {
		return s
	}
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// A past is what is known of a message besides what it is: the attempts that failed, and which
// actor sent it. It is stored when an attempt has failed; before that memory alone has it.
type past struct {
	last   cause
	began  []int64 // when the newest attempts that failed began, Unix ms, oldest first; not changed in place
	sender string
}

// failed reports whether there is an attempt that failed.
func (p *past) failed() bool { return len(p.began) > 0 }

// fail adds an attempt that failed. Without a cause the last one stays.
func (p *past) fail(began int64, why cause) {
	first := max(len(p.began)-(maxAttempts-1), 0)
	p.began = append(slices.Clone(p.began[first:]), began)
	if why != (cause{}) {
		p.last = why
	}
}

// kept returns p for memory, nil if it says nothing.
func (p *past) kept() *past {
	if !p.failed() && p.sender == "" {
		return nil
	}
	return &past{p.last, p.began, p.sender}
}

// failure is p for callers.
func (p *past) failure() (f Failure) {
	f.Code, f.Text = p.last.code, p.last.text
	for _, at := range p.began {
		f.Attempts = append(f.Attempts, time.UnixMilli(at))
	}
	return f
}

// size returns the length of the encoded past in bytes.
func (p *past) size() (n int) {
	for _, s := range [...]string{p.last.code, p.last.text, p.sender} {
		n += uvarintSize(len(s)) + len(s)
	}
	return n + 1 + 8*len(p.began)
}

func (p *past) append(dst []byte) []byte {
	dst = bare.AppendString(dst, p.last.code)
	dst = bare.AppendString(dst, p.last.text)
	dst = bare.AppendUint(dst, uint64(len(p.began)))
	for _, at := range p.began {
		dst = bare.AppendI64(dst, at)
	}
	return bare.AppendString(dst, p.sender)
}

// parsePast reads what append has written of an attempt that failed.
func parsePast(r *bare.Reader) (p past) {
	p.last.code, p.last.text = r.String(), r.String()
	n := r.Len(maxAttempts)
	for range n {
		p.began = append(p.began, r.I64())
	}
	switch p.sender = r.String(); {
	case n == 0:
		r.Fail("no attempt has failed")
	case len(p.last.code)+len(p.last.text) > maxError:
		r.Fail("an error of %d bytes, limit %d", len(p.last.code)+len(p.last.text), maxError)
	case len(p.sender) > maxSender:
		r.Fail("a sender of %d bytes, limit %d", len(p.sender), maxSender)
	}
	return p
}

// shorter returns a stored record without what it says of attempts that failed, and that.
func shorter(rec []byte) ([]byte, *past) {
	r, err := parseRecord(rec)
	if err != nil || !r.past.failed() {
		return rec, nil
	}
	p := r.past.kept()
	r.past = past{}
	return r.encode(), p
}
