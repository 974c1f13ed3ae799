package engine

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/peers"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// A request is a client that waits for an answer. Its fields are guarded by core.mu.
type request struct {
	*exchange
	lent    int64 // bytes of what the actor is sent
	parts   []rp.FromActorBody
	bytes   int64 // of the answer, as long as the client has got nothing, and else of parts
	err     error
	signal  chan struct{} // of one: there is more
	written atomic.Bool   // the runner has been sent the request
	began   bool          // the client has got the first part; the handler's, and not guarded
}

// size returns the bytes of a part of an answer.
func size(part rp.FromActorBody) int64 {
	switch p := part.(type) {
	case rp.ResponseStart:
		return int64(len(p.Body))
	case rp.ResponseChunk:
		return int64(len(p.Data))
	}
	return 0
}

// take implements client.
func (q *request) take(t *tunnel, m rp.FromActor) {
	switch m.Body.(type) {
	case rp.ResponseStart, rp.ResponseChunk:
	case rp.ResponseAbort:
		q.fail(t, errUnavailable)
		return
	default:
		return // it isn't a part of an answer
	}
	if s, ok := m.Body.(rp.ResponseStart); ok && (t.a.phase != running || t.a.wanted) && refusal(&s) {
		q.fail(t, errStopped) // the next start of the actor gets it
		return
	}
	if s, ok := m.Body.(rp.ResponseStart); ok {
		t.a.used.answered(s.Status)
	}
	n := size(m.Body)
	if q.bytes += n; q.bytes > q.e.opts.MaxBody {
		q.parts = nil
		q.fail(t, errAnswer)
		return
	}
	if !q.account.charge(n) {
		q.parts = nil
		q.fail(t, errBusy)
		return
	}
	q.parts = append(q.parts, m.Body)
	q.poke()
}

// refusal reports whether an answer says that the actor takes no requests any more, as it stops: the error actor.stopping, in one of
// RivetKit's encodings. RivetKit's clients repeat a request after it, too.
func refusal(s *rp.ResponseStart) bool {
	if s.Status < http.StatusBadRequest || len(s.Body) > 4<<10 || s.Stream {
		return false
	}
	has := func(text string) bool { return bytes.Contains(s.Body, []byte(text)) }
	return has("\x05actor\x08stopping") || // bare
		has("egroupeactor") && has("dcodehstopping") || // CBOR
		has(`"group":"actor"`) && has(`"code":"stopping"`)
}

// sent implements client.
func (q *request) sent() {
	q.account.repaid(q.lent, true)
	q.written.Store(true)
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

// serveRequest passes a request on to an actor, here or at another engine, and answers it unless it returns an error.
func serveRequest(e *core, w http.ResponseWriter, r *http.Request, info *actorInfo, target string) error {
	x := newExchange(e, w, r, info.ID)
	defer x.close()
	body, err := x.body(e.opts.MaxBody)
	if err != nil {
		return err
	}
	x.late = time.AfterFunc(e.opts.AnswerTimeout, func() { x.cancel(errNoAnswer) })
	defer x.late.Stop()
	x.start = rp.RequestStart{Actor: info.ID.String(), Method: r.Method, Path: target, Headers: headersOf(r)}
	if len(body) > 0 {
		x.start.Body = body
	}
	return x.cause(follower{e, info, false}.follow(x.ctx, func(a *actor) error {
		var err error
		failed := repeat(x.ctx, func() error {
			err = x.attempt(a)
			if x.forgotten {
				return nil // it can't be repeated
			}
			return err
		})
		if failed == nil {
			failed = err
		}
		return failed
	}, func(to *actorstore.HostInfo) error { return e.fleet.pass(x, to, info.ID, x.start.Body) }))
}

// serveDestroy begins the end of an actor, here or at another engine, and answers the request when the store says so: the end follows, after a restart too. If it
// returns an error nothing was answered.
func serveDestroy(e *core, w http.ResponseWriter, r *http.Request, info *actorInfo) error {
	x := newExchange(e, w, r, info.ID)
	defer x.close()
	return x.cause(follower{e, info, true}.follow(x.ctx, func(a *actor) error {
		e.mu.Lock()
		if a.phase == gone {
			defer e.mu.Unlock()
			return e.fleet.lost(a)
		}
		stored := make(chan error, 1)
		a.doom(func(err error) { stored <- err })
		e.mu.Unlock()
		select {
		case err := <-stored:
			if err == nil {
				writeJSON(w, http.StatusOK, map[string]any{})
			}
			return err
		case <-x.ctx.Done():
			return x.ctx.Err()
		}
	}, func(to *actorstore.HostInfo) error { return e.fleet.pass(x, to, info.ID, nil) }))
}

// attempt sends a request to the actor, and answers the client. It returns an error only if the client has got nothing.
func (x *exchange) attempt(a *actor) error {
	q := &request{exchange: x, lent: int64(len(x.start.Body)), signal: make(chan struct{}, 1)}
	x.account.lend(q.lent)
	t, err := openTunnel(x.ctx, a, q, x.start)
	if err != nil {
		x.account.repaid(q.lent, true)
		return err
	}
	defer q.end(t)
	for {
		select {
		case <-q.signal:
		case <-x.ctx.Done():
			q.abort(t)
			if q.began {
				panic(http.ErrAbortHandler) // the client must see that the answer is cut off
			}
			return x.ctx.Err()
		}
		if q.written.Load() {
			x.forget()
		}
		parts, failed := q.next()
		for i, p := range parts {
			if q.answer(p) {
				return nil
			}
			parts[i] = nil
			x.account.give(size(p))
		}
		if failed != nil && q.began {
			panic(http.ErrAbortHandler)
		}
		if failed != nil {
			x.forgotten = x.forgotten || len(x.start.Body) > maxRepeated
			return failed
		}
	}
}

// next returns the parts of the answer that have come, and why there will be no more.
func (q *request) next() (parts []rp.FromActorBody, failed error) {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	parts, q.parts = q.parts, nil
	if q.began { // what the client got isn't kept
		q.bytes = 0
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
}

// answer writes one part of an answer, and reports whether it was the last that the client gets.
func (q *request) answer(part rp.FromActorBody) (last bool) {
	var err error
	switch p := part.(type) {
	case rp.ResponseStart:
		if q.began {
			return true
		}
		q.began = true
		q.late.Stop()
		writeHead(q.w, p)
		last = !p.Stream
		err = q.write(p.Body, !last)
	case rp.ResponseChunk:
		last = p.Finish
		err = q.write(p.Data, !last)
	}
	return last || err != nil
}

// ownReason is peers.ReasonHeader, as writeHead compares it.
var ownReason = strings.ToLower(peers.ReasonHeader)

// writeHead writes the status of an answer and its headers, but for those that the engine writes itself.
func writeHead(w http.ResponseWriter, p rp.ResponseStart) {
	for _, h := range p.Headers {
		switch name := strings.ToLower(h.Name); name {
		case "transfer-encoding", "connection", "keep-alive", "content-length", "upgrade", ownReason:
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
