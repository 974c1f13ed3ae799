package engine

import (
	"context"
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
	errTooLong = newError(http.StatusBadRequest, "message", "incoming_too_long", "The body is too long.")
	errBusy    = newError(http.StatusServiceUnavailable, "guard", "service_unavailable", "Too much is under way.")
	errAnswer  = newError(http.StatusBadRequest, "message", "outgoing_too_long", "The answer is too long.")
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
	began  bool          // the client has got the first part; the handler's, and not guarded
}

// take implements client.
func (q *request) take(t *tunnel, m rp.FromActor) {
	size := int64(0)
	switch b := m.Body.(type) {
	case rp.ResponseStart:
		size = int64(len(b.Body))
	case rp.ResponseChunk:
		size = int64(len(b.Data))
	case rp.ResponseAbort:
		q.fail(t, errUnavailable)
		return
	default:
		return // it isn't a part of an answer
	}
	if q.bytes += size; q.bytes > q.limit {
		q.parts = nil
		q.fail(t, errAnswer)
		return
	}
	if !q.e.hold(size) {
		q.parts = nil
		q.fail(t, errBusy)
		return
	}
	q.held += size
	q.parts = append(q.parts, m.Body)
	q.poke()
}

// fail implements client.
func (q *request) fail(_ *tunnel, err error) {
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

// repeat calls try again, some times, if an attempt has failed by something that passes.
func repeat(ctx context.Context, try func() error) error {
	for n := 1; ; n++ {
		err := try()
		if !passing(err) || n == attempts {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readBody reads the body of a request, which may have limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, errTooLong
	}
	if err != nil {
		return nil, invalid("the body is cut off")
	}
	return b, nil
}

// serveRequest passes a request on to an actor, and answers it unless it returns an error.
func serveRequest(e *core, w http.ResponseWriter, r *http.Request, id actorstore.ID, target string) error {
	size := e.opts.MaxBody
	if r.ContentLength >= 0 {
		size = min(size, r.ContentLength)
	}
	e.mu.Lock()
	room := e.hold(size)
	e.mu.Unlock()
	if !room {
		return errBusy
	}
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.held -= size
	}()
	body, err := readBody(w, r, e.opts.MaxBody)
	if err != nil {
		return err
	}
	a, err := enter(r.Context(), e, id)
	if err != nil {
		return err
	}
	defer a.leave()
	start := rp.RequestStart{Actor: a.text, Method: r.Method, Path: target, Headers: headersOf(r)}
	if len(body) > 0 {
		start.Body = body
	}
	return repeat(r.Context(), func() error { return attempt(w, r, a, start) })
}

// attempt sends a request to the actor, and answers the client. It returns an error only if the client has got nothing.
func attempt(w http.ResponseWriter, r *http.Request, a *actor, start rp.RequestStart) error {
	q := &request{e: a.e, limit: a.e.opts.MaxBody, signal: make(chan struct{}, 1)}
	t, err := openTunnel(r.Context(), a, q, start)
	if err != nil {
		return err
	}
	defer q.end(t)
	for {
		select {
		case <-q.signal:
		case <-r.Context().Done():
			q.abort(t)
			if q.began {
				return nil
			}
			return r.Context().Err()
		}
		parts, failed := q.next()
		for _, p := range parts {
			if q.answer(w, p) {
				return nil
			}
		}
		if failed != nil && q.began {
			panic(http.ErrAbortHandler) // the client must see that the answer is cut off
		}
		if failed != nil {
			return failed
		}
	}
}

// next returns the parts of the answer that have come, and why there will be no more.
func (q *request) next() (parts []rp.FromActorBody, failed error) {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	parts, q.parts = q.parts, nil
	if q.began { // what the client has got isn't kept
		q.e.held -= q.held
		q.bytes, q.held = 0, 0
	}
	return parts, q.err
}

// abort tells the actor that the client waits no longer.
func (q *request) abort(t *tunnel) {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	if t.isOpen() {
		t.send(rp.RequestAbort{})
	}
}

// end ends the tunnel of the request.
func (q *request) end(t *tunnel) {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	t.remove()
	q.e.held -= q.held
}

// answer writes one part of an answer, and reports whether it was the last that the client gets.
func (q *request) answer(w http.ResponseWriter, part rp.FromActorBody) (last bool) {
	var err error
	switch p := part.(type) {
	case rp.ResponseStart:
		if q.began {
			return true
		}
		q.began = true
		writeHead(w, p)
		_, err = w.Write(p.Body)
		last = !p.Stream
	case rp.ResponseChunk:
		_, err = w.Write(p.Data)
		last = p.Finish
	}
	if !last {
		_ = http.NewResponseController(w).Flush() // what can't be flushed is sent later
	}
	return last || err != nil
}

// writeHead writes the status of an answer and its headers, but for those that the engine writes itself.
func writeHead(w http.ResponseWriter, p rp.ResponseStart) {
	for _, h := range p.Headers {
		switch name := strings.ToLower(h.Name); name {
		case "transfer-encoding", "connection", "keep-alive", "content-length", "upgrade":
		default:
			if !strings.HasPrefix(name, "access-control-") {
				w.Header().Set(h.Name, h.Value)
			}
		}
	}
	status := int(p.Status)
	if status < 200 || status > 999 {
		status = http.StatusBadGateway
	}
	w.WriteHeader(status)
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
