//go:build unix

package chaos

import (
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"
)

// What the counters are, by number: those that are always called; those that are called seldom, so that they fall
// asleep and wake in between, wherever they are called next; and those that are called in turns of two as well.
const (
	firstSeldom = 6
	firstJoint  = 8
	actors      = 11
)

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
	Client     int
	Actors     []int  // one, or those of one turn
	Action     string // "add", "get"
	ID         int    `json:",omitempty"` // of an increment
	To         []int  `json:",omitempty"` // those of the actors that get the increment; the others are looked at
	Begin, End time.Duration
	Outcome    outcome
	Answers    []answer `json:",omitempty"` // of each of the actors
	Why        string   `json:",omitempty"` // it wasn't answered: the host's code, or the error
}

// An event is a moment of chaos.
type event struct {
	Kind, What string
	Begin, End time.Duration
}

// A reading is the lists of some actors' increments, at one moment when everything else is over.
type reading struct {
	Actors     []int
	Lists      [][]int // of each of the actors
	Begin, End time.Duration
}

// of returns the reading of one of the actors.
func (r reading) of(actor int) reading {
	i := slices.Index(r.Actors, actor)
	r.Actors, r.Lists = r.Actors[i:i+1], r.Lists[i:i+1]
	return r
}

// lose returns the reading as it were if the first list had lost an increment, of those that are in another one as well if there are
// others, and which one.
func (r reading) lose() (less reading, lost int) {
	var some []int
	for _, id := range r.Lists[0] {
		if len(r.Lists) == 1 || slices.ContainsFunc(r.Lists[1:], func(l []int) bool { return slices.Contains(l, id) }) {
			some = append(some, id)
		}
	}
	lost = some[len(some)/2]
	r.Lists = slices.Clone(r.Lists)
	r.Lists[0] = slices.DeleteFunc(slices.Clone(r.Lists[0]), func(id int) bool { return id == lost })
	return r, lost
}

// lengths returns those of the lists.
func (r reading) lengths() (ns []int) {
	for _, l := range r.Lists {
		ns = append(ns, len(l))
	}
	return ns
}

// A history is what has happened. It is safe for concurrent use.
type history struct {
	start    time.Time
	readings []reading // of the end; the test's own goroutine alone uses them

	mu       sync.Mutex
	calls    []call         // +checklocks:mu
	events   []event        // +checklocks:mu
	answered int            // calls that were  +checklocks:mu
	joint    int            // of which were of several actors  +checklocks:mu
	moves    int            // how often an actor answered from another process; not of those that are called together  +checklocks:mu
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
	if len(c.Actors) > 1 {
		h.joint++
	}
	// Answers may come in another order than their calls were made.
	if a, o := c.Answers[0], &h.owners[c.Actors[0]]; a.State.N > o.State.N {
		if o.Process != "" && o.Process != a.Process && c.Actors[0] < firstJoint {
			h.moves++
		}
		*o = a
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

// progress returns how many calls were answered, how many of these were of several actors, and how many actors moved.
func (h *history) progress() (answered, joint, moves int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answered, h.joint, h.moves
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
