package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
)

// Bounds of event streams.
const (
	// maxStreams bounds the streams of a Server: one more is overloaded.
	maxStreams = 64
	// eventPause is how long a stream is quiet after events.
	eventPause = 250 * time.Millisecond
	// beat is how often a stream has a comment, so that what is in between doesn't take it for dead.
	beat = 15 * time.Second
	// maxPending is of how many actors a stream remembers events that its client wasn't sent. If there are more it forgets all of them, and sends
	// that the client has lost events.
	maxPending = 1000
	// takeTime is how long a client may take nothing.
	takeTime = 30 * time.Second
)

var eventParams = []param{{name: "actor", kind: "string", repeated: true, what: "An actor whose events are wanted, which needn't exist yet; all actors unless it is there."}}

// eventRoute is the stream of what changes in a store.
func eventRoute() route {
	return route{
		method: http.MethodGet, path: "/v1/events", params: eventParams, gives: "text/event-stream", reads: true, serve: func(s *Server, w http.ResponseWriter, r *http.Request) { streamer{s}.serve(w, r) },
		what: "What changes in the store, as it does, in server-sent events whose data is an object in JSON. commit: an actor has changed, at most one in 250 ms for each actor; actor (unless it has no name), " +
			"id, seq (of its newest commit), and attributes (true if its labels, the state of its workflow or the version of its schema have changed). drop: an actor is gone; actor and id. " +
			"lost: the client was too slow, and missed events; it reads anew what it wants to know.",
	}
}

// An event is the data of what a stream tells of an actor.
type event struct {
	Actor      string `json:"actor,omitempty"`
	ID         string `json:"id"`
	Seq        uint64 `json:"seq,omitempty"`
	Attributes bool   `json:"attributes,omitempty"`
}

// A stream is what one client is still to be told. Its methods are safe for concurrent use.
type stream struct {
	ids   map[actorstore.ID]bool // of the actors that are wanted; nil for all
	names map[string]bool        // likewise
	some  chan struct{}          // has one element while there is something to tell

	mu      sync.Mutex
	pending map[actorstore.ID]actorstore.Change // +checklocks:mu
	order   []actorstore.ID                     // of pending, the longest first  +checklocks:mu
	lost    bool                                // +checklocks:mu
}

// learn notes a change.
func (s *stream) learn(c actorstore.Change) {
	if s.ids != nil && !s.ids[c.ID] && !s.names[c.Name] {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.pending[c.ID]
	switch {
	case !known && len(s.pending) == maxPending:
		clear(s.pending)
		s.order, s.lost = s.order[:0], true
	case !known:
		s.order = append(s.order, c.ID)
		s.pending[c.ID] = c
	default:
		// One that was dropped, and is made anew, has nothing of what it had.
		c.Attributes = c.Attributes || before.Attributes || before.Dropped
		s.pending[c.ID] = c
	}
	select {
	case s.some <- struct{}{}:
	default:
	}
}

// take appends what there is to tell, and forgets it.
func (s *stream) take(to *bytes.Buffer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost {
		to.WriteString("event: lost\ndata: {}\n\n")
	}
	for _, id := range s.order {
		c := s.pending[id]
		kind := "commit"
		if c.Dropped {
			kind, c.Attributes = "drop", false
		}
		data, err := json.Marshal(event{c.Name, id.String(), c.Seq, c.Attributes})
		if err != nil {
			panic("admin: an event is not JSON: " + err.Error())
		}
		to.WriteString("event: " + kind + "\ndata: ")
		to.Write(data)
		to.WriteString("\n\n")
	}
	clear(s.pending)
	s.order, s.lost = s.order[:0], false
}

// A streamer answers requests for events.
type streamer struct{ *Server }

// serve answers with what changes, until the client has gone or the Server is closed.
func (s streamer) serve(w http.ResponseWriter, r *http.Request) {
	st, err := s.newStream(r)
	if err != nil {
		refuse(w, err)
		return
	}
	if r.Method == http.MethodHead { // which has no body to wait for
		w.Header().Set("Content-Type", "text/event-stream")
		return
	}
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		refuse(w, &Error{Code: "overloaded", Message: "there are as many event streams as there may be: end one, or try again later"})
		return
	}
	defer s.streams.Add(-1)
	for _, store := range s.changing() {
		defer store.OnChange(st.learn)()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.open, cancel)()
	o := &streamOut{w: w, to: http.NewResponseController(w)}
	stop := context.AfterFunc(ctx, o.abort)
	defer stop()
	o.run(ctx, st)
}

// newStream returns the stream that a request asks for.
func (s streamer) newStream(r *http.Request) (*stream, error) {
	q, err := newQuery(r, eventParams)
	if err != nil {
		return nil, err
	}
	st := &stream{some: make(chan struct{}, 1), pending: map[actorstore.ID]actorstore.Change{}}
	for _, actor := range q.values["actor"] {
		id, err := idOf(r.Context(), s.store, actor)
		switch {
		case actor == "":
			return nil, invalid("the name of an actor is empty")
		case err != nil:
			return nil, err
		case st.ids == nil:
			st.ids, st.names = map[actorstore.ID]bool{}, map[string]bool{}
		}
		// The name too: an actor that is made later may have another id than its name says.
		st.ids[id], st.names[actor] = true, true
	}
	return st, nil
}

// changing returns the stores that tell of what changes in this process.
func (s streamer) changing() []*actorstore.Store {
	stores := []*actorstore.Store{s.store.Lower()}
	// On an engine of this process alone each store tells of all.
	if r, ok := s.actors.(Runner); ok && kv.Shared(s.store.Engine()) == nil && r.Store() != s.store {
		stores = append(stores, r.Store().Lower())
	}
	return stores
}

// A streamOut is the way to the client of a stream.
type streamOut struct {
	w       http.ResponseWriter
	to      *http.ResponseController
	writing atomic.Bool
}

// abort ends a write that waits for the client. The context of send has ended.
func (o *streamOut) abort() {
	if o.writing.Load() {
		_ = o.to.SetWriteDeadline(time.Unix(1, 0)) // a connection that is closed waits no more
	}
}

// send sends text.
func (o *streamOut) send(ctx context.Context, text []byte) error {
	o.writing.Store(true)
	defer o.writing.Store(false)
	if err := o.to.SetWriteDeadline(time.Now().Add(takeTime)); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // abort may have come before
		return err
	}
	_, err := o.w.Write(text)
	return errors.Join(err, o.to.Flush())
}

// run sends what the stream has to tell until ctx ends or the client can't be reached.
func (o *streamOut) run(ctx context.Context, st *stream) {
	beats := time.NewTicker(beat)
	defer beats.Stop()
	var text bytes.Buffer
	// At once: from now on the client misses nothing.
	some := st.some
	var paused <-chan time.Time // nil unless the stream is quiet
	for err := o.send(ctx, []byte(": greenroom\n\n")); err == nil; {
		select {
		case <-some:
			text.Reset()
			st.take(&text)
			err = o.send(ctx, text.Bytes())
			some, paused = nil, time.After(eventPause)
		case <-paused:
			some, paused = st.some, nil
		case <-beats.C:
			err = o.send(ctx, []byte(":\n\n"))
		case <-ctx.Done():
			return
		}
	}
}
