package s3fake

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
)

// A Fault is what becomes of a request.
type Fault int

const (
	// None lets it be done, and answered.
	None Fault = iota
	// Busy refuses it with 503, and doesn't read its body.
	Busy
	// Broken lets it be done, and answers 500.
	Broken
	// CutRequest cuts the connection in the middle of its body. It isn't done.
	CutRequest
	// CutAnswer lets it be done, and cuts the connection before the answer.
	CutAnswer
	// CutBody lets it be done, and cuts the connection in the middle of the answer's body.
	CutBody
	// Short lets it be done, and answers with half of the answer's body, as if that were all.
	Short
	// Trickle lets it be done, and answers in small pieces.
	Trickle
	// Late cuts the connection before the answer, and lets the request be done later: after the next one that writes, or when the test
	// calls Flush.
	Late
)

// Faulty lists all that break something.
var Faulty = []Fault{Busy, Broken, CutRequest, CutAnswer, CutBody, Short, Trickle, Late}

// String returns the name of the fault.
func (f Fault) String() string {
	return [...]string{"None", "Busy", "Broken", "CutRequest", "CutAnswer", "CutBody", "Short", "Trickle", "Late"}[f]
}

// A Lack is something that a server of less than S3 lacks.
type Lack int

const (
	// Conditions: it ignores If-None-Match.
	Conditions Lack = 1 << iota
	// PartsConditions: it ignores If-None-Match at the end of an upload in parts.
	PartsConditions
	// Metadata: it forgets the metadata of objects.
	Metadata
	// Ranges: it answers with whole objects.
	Ranges
	// Implementation: it refuses If-None-Match with 501.
	Implementation
	// Forbidden: it answers 404 where S3 answers 403.
	Forbidden
	// Completion: it says once that an upload in parts is complete, and forgets it. Some servers do after a crash.
	Completion
)

// Faults break a server. All methods are safe for concurrent use.
type Faults struct {
	do func(r *http.Request, body []byte) *httptest.ResponseRecorder
	// uploads counts the uploads that are not over.
	uploads func() int

	mu   sync.Mutex
	plan func(r *http.Request) Fault // +checklocks:mu
	lack Lack                        // +checklocks:mu
	seen map[Fault]int               // +checklocks:mu
	late []func()                    // +checklocks:mu
}

// Plan calls plan, one call at a time, with each request that comes, and lets it have the fault that plan returns. The body of the request
// isn't plan's to read. A nil plan is one of no faults.
func (f *Faults) Plan(plan func(r *http.Request) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = plan
}

// Lack takes something away from the server for good.
func (f *Faults) Lack(what Lack) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lack |= what
}

// Seen returns how many requests have had a fault.
func (f *Faults) Seen(fault Fault) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[fault]
}

// Uploads returns how many uploads in parts were neither completed nor aborted.
func (f *Faults) Uploads() int { return f.uploads() }

// Flush lets all requests be done that are late.
func (f *Faults) Flush() {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	for _, do := range late {
		do()
	}
}

// next returns what is to become of a request.
func (f *Faults) next(r *http.Request) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.plan == nil {
		return None
	}
	fault := f.plan(r)
	if f.seen == nil {
		f.seen = map[Fault]int{}
	}
	f.seen[fault]++
	return fault
}

// lacks reports whether the server lacks something.
func (f *Faults) lacks(what Lack) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lack&what != 0
}

// spend reports whether the server lacks something, which it then does no longer.
func (f *Faults) spend(what Lack) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	spent := f.lack&what != 0
	f.lack &^= what
	return spent
}

// keep keeps a request for later.
func (f *Faults) keep(r *http.Request, body []byte) {
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(nil))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = append(f.late, func() { f.do(r, body) })
}

// done says that a request was done: if it wrote something the late ones are done now.
func (f *Faults) done(r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		f.Flush()
	}
}
