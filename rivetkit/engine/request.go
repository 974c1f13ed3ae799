package engine

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/actorstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

var (
	errTooLong = &apiError{Group: "message", Code: "incoming_too_long", Message: "The body is too long.", Status: http.StatusBadRequest}
	errBusy    = &apiError{Group: "guard", Code: "service_unavailable", Message: "Too much is under way.", Status: http.StatusServiceUnavailable}
	errAnswer  = &apiError{Group: "message", Code: "outgoing_too_long", Message: "The answer is too long.", Status: http.StatusBadRequest}
)

// A request is a client that waits for an answer. Its fields are guarded by core.mu.
type request struct {
	e      *core
	limit  int64
	held   int64 // of core.held
	parts  []rp.FromActorBody
	bytes  int64
	err    error
	signal chan struct{} // of one: there is more
}

// take implements client.
func (q *request) take(m rp.FromActor) {
	size := int64(0)
	switch b := m.Body.(type) {
	case rp.ResponseStart:
		size = int64(len(b.Body))
	case rp.ResponseChunk:
		size = int64(len(b.Data))
	case rp.ResponseAbort:
		q.fail(errUnavailable)
		return
	default:
		return // it isn't a part of an answer
	}
	if q.bytes += size; q.bytes > q.limit {
		q.parts = nil
		q.fail(errAnswer)
		return
	}
	if !q.e.hold(size) {
		q.parts = nil
		q.fail(errBusy)
		return
	}
	q.held += size
	q.parts = append(q.parts, m.Body)
	q.poke()
}

// fail implements client.
func (q *request) fail(err error) {
	if q.err == nil {
		q.err = err
	}
	q.poke()
}

func (q *request) poke() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// attempts is how often a request is sent whose actor stops meanwhile.
const attempts = 4

// passing reports whether an attempt has failed by something that passes, and nothing was done.
func passing(err error) bool { return errors.Is(err, errStopped) || errors.Is(err, errUnavailable) }

// serveRequest passes a request on to an actor.
func serveRequest(e *core, w http.ResponseWriter, r *http.Request, id actorstore.ID, target string) {
	size := e.opts.MaxBody
	if r.ContentLength >= 0 {
		size = min(size, r.ContentLength)
	}
	e.mu.Lock()
	room := e.hold(size)
	e.mu.Unlock()
	if !room {
		writeError(w, errBusy)
		return
	}
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.held -= size
	}()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, e.opts.MaxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		err = errTooLong
	}
	var a *actor
	if err == nil {
		a, err = enter(r.Context(), e, id)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	defer a.leave()
	start := rp.RequestStart{Actor: a.text, Method: r.Method, Path: target, Headers: headersOf(r)}
	if len(body) > 0 {
		start.Body = body
	}
	for n := 1; ; n++ {
		began, err := attempt(w, r, a, start)
		if err == nil || began {
			return
		}
		if !passing(err) || n == attempts {
			writeError(w, err)
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
}

// attempt sends a request to the actor, and answers the client. began says that the answer has begun.
func attempt(w http.ResponseWriter, r *http.Request, a *actor, start rp.RequestStart) (began bool, err error) {
	e := a.e
	if err := a.await(r.Context()); err != nil {
		return false, err
	}
	e.mu.Lock()
	if a.phase != running || a.runner.conn == nil {
		e.mu.Unlock()
		return false, errStopped
	}
	q := &request{e: e, limit: e.opts.MaxBody, signal: make(chan struct{}, 1)}
	t := openTunnel(a, q)
	t.send(start)
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		t.remove()
		e.held -= q.held
	}()
	for {
		select {
		case <-q.signal:
		case <-r.Context().Done():
			e.mu.Lock()
			if e.tunnel(t.id) == t {
				t.send(rp.RequestAbort{})
			}
			e.mu.Unlock()
			return began, r.Context().Err()
		}
		e.mu.Lock()
		parts, failed := q.parts, q.err
		q.parts = nil
		if began { // what the client has got isn't kept
			e.held -= q.held
			q.bytes, q.held = 0, 0
		}
		e.mu.Unlock()
		for _, p := range parts {
			done, err := answer(w, p, &began)
			if done || err != nil {
				return true, err
			}
		}
		if failed != nil {
			if began {
				panic(http.ErrAbortHandler) // the client must see that the answer is cut off
			}
			return false, failed
		}
	}
}

// answer writes one part of an answer, and says whether it was the last.
func answer(w http.ResponseWriter, part rp.FromActorBody, began *bool) (done bool, err error) {
	switch p := part.(type) {
	case rp.ResponseStart:
		if *began {
			return true, nil
		}
		*began = true
		for _, h := range p.Headers {
			switch strings.ToLower(h.Name) {
			case "transfer-encoding", "connection", "keep-alive", "content-length", "upgrade":
			default:
				if !strings.HasPrefix(strings.ToLower(h.Name), "access-control-") {
					w.Header().Set(h.Name, h.Value)
				}
			}
		}
		status := int(p.Status)
		if status < 200 || status > 999 {
			status = http.StatusBadGateway
		}
		w.WriteHeader(status)
		_, err = w.Write(p.Body)
		if !p.Stream {
			return true, err
		}
	case rp.ResponseChunk:
		_, err = w.Write(p.Data)
		done = p.Finish
	}
	_ = http.NewResponseController(w).Flush() // what can't be flushed is sent later
	return done, err
}

// headersOf returns the headers of a request as the runner expects them: one of a name, in lower case, with bytes that aren't
// UTF-8 taken for Latin-1, as Node does.
func headersOf(r *http.Request) []rp.Header {
	list := []rp.Header{{Name: "host", Value: latin1(r.Host)}}
	for name, values := range r.Header {
		name, sep := strings.ToLower(name), ", "
		if name == "cookie" {
			sep = "; "
		}
		list = append(list, rp.Header{Name: name, Value: latin1(strings.Join(values, sep))})
	}
	return list
}

// latin1 returns a header's value with each byte as the character that it is in Latin-1.
func latin1(s string) string {
	ascii := true
	for i := range len(s) {
		ascii = ascii && s[i] < utf8.RuneSelf
	}
	if ascii {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}
