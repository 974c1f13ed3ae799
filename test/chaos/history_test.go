//go:build unix

package chaos

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// actors is how many counters there are. The last two are called seldom, so that they fall
// asleep and wake in between, wherever they are called next.
const actors, seldom = 8, 2

// An outcome is what a client knows of a call.
type outcome string

const (
	answered outcome = "answered"
	// refused: the client was told that nothing has landed, or the host has never got the
	// call.
	refused outcome = "refused"
	// unknown: it may have landed, or may land later.
	unknown outcome = "unknown"
)

// A call is one attempt of a client.
type call struct {
	Client, Actor int
	Action        string // "add", "get"
	ID            int    `json:",omitempty"` // of an increment
	Begin, End    time.Duration
	Outcome       outcome
	Answer        answer `json:",omitzero"`
	Why           string `json:",omitempty"` // it wasn't answered: the host's code, or the error
}

// An event is a moment of chaos.
type event struct {
	Kind, What string
	Begin, End time.Duration
}

// A reading is the list of an actor's increments when everything else is over.
type reading struct {
	Actor      int
	List       []int
	Begin, End time.Duration
}

// A history is what has happened. It is safe for concurrent use.
type history struct {
	start    time.Time
	readings []reading // of the end; the test's own goroutine alone uses them

	mu       sync.Mutex
	calls    []call         // +checklocks:mu
	events   []event        // +checklocks:mu
	answered int            // calls that were  +checklocks:mu
	moves    int            // how often an actor answered from another process  +checklocks:mu
	owners   [actors]answer // the newest of each actor  +checklocks:mu
	why      map[string]int // of calls that weren't answered  +checklocks:mu
	ids      int            // that were given  +checklocks:mu
}

func newHistory() *history { return &history{start: time.Now(), why: map[string]int{}} }

// now is the time since the beginning, by the monotonic clock.
func (h *history) now() time.Duration { return time.Since(h.start) }

// id returns a number that nothing else has.
func (h *history) id() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids++
	return h.ids
}

// add enters a call that has ended.
func (h *history) add(c call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, c)
	if c.Outcome != answered {
		h.why[c.Why]++
		return
	}
	h.answered++
	// Answers may come in another order than their calls were made.
	if o := &h.owners[c.Actor]; c.Answer.State.N > o.State.N {
		if o.Process != "" && o.Process != c.Answer.Process {
			h.moves++
		}
		*o = c.Answer
	}
}

// happened enters an event that has begun, and returns a function for when it ends.
func (h *history) happened(kind, what string) (ended func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := len(h.events)
	h.events = append(h.events, event{Kind: kind, What: what, Begin: h.now()})
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.events[i].End = h.now()
	}
}

// progress returns how many calls were answered, and how many actors moved.
func (h *history) progress() (answered, moves int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answered, h.moves
}

// write writes everything as lines of JSON.
func (h *history) write(w io.Writer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := json.NewEncoder(w)
	for _, e := range h.events {
		if err := lines.Encode(e); err != nil {
			return err
		}
	}
	for _, c := range h.calls {
		if err := lines.Encode(c); err != nil {
			return err
		}
	}
	for _, r := range h.readings {
		if err := lines.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
