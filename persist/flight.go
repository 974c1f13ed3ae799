package persist

import (
	"context"
	"errors"
	"log/slog"

	"github.com/greenroomdb/greenroom/batch"
)

// A flight is what one batch does to the record. It begins with the first Late function
// of the batch that is ours and ends when the batch is settled: all the time under the
// actor's commit lock, so there is one at most. Its fields are guarded by Record.mu.
//
// However much of the record a batch changes, it is written once: with the newest state
// in memory, saved or not, and the events that the flight leaves. A state that the store
// has no room for must not keep events from coming and going: when it was refused the
// flight carries the state as it is stored instead, and the new one is still to be saved.
type flight struct {
	r     *Record
	batch *batch.Batch

	// newState says that the batch brings a state of its own. Nobody else may change
	// the state until it is settled: either they would have changed one that never
	// was, or their change would be lost.
	newState bool
	state    []byte
	init     bool

	newEvents  bool
	events     []*event
	eventBytes int
	leaving    []*event // that the batch removes

	behind  bool // the state as it is stored will do
	refused bool // there may have been room without the state that isn't saved

	gen   uint64 // the state that was put
	size  int    // of the record that was put, 0 if none was
	asked bool   // that it be put

	over chan struct{} // closed at the end
}

var errOverlap = errors.New("persist: a batch was sealed and is not settled")

// board returns the flight of b.
//
// +checklocks:r.mu
func (r *Record) board(b *batch.Batch) (*flight, error) {
	if err := r.usable(); err != nil {
		return nil, err // who opened the record anew doesn't know what is staged here
	}
	if r.flight != nil {
		if r.flight.batch != b {
			return nil, errOverlap
		}
		return r.flight, nil
	}
	f := &flight{r: r, batch: b, state: r.state, init: r.init, events: r.events, eventBytes: r.eventBytes,
		behind: r.crowded, over: make(chan struct{})}
	r.flight = f
	b.OnCommit(f.commit)
	b.OnAbort(f.abort)
	return f, nil
}

// put has the record written, once all that is staged before has been.
//
// +checklocks:f.r.mu
func (f *flight) put() {
	if f.asked {
		return
	}
	f.asked = true
	f.batch.Late(func(*batch.Batch) error {
		f.r.mu.Lock()
		defer f.r.mu.Unlock()
		f.asked = false // what comes later in the batch asks again
		return f.write()
	})
}

// write stages the record.
//
// +checklocks:f.r.mu
func (f *flight) write() error {
	r := f.r
	f.gen = r.gen
	switch {
	case f.newState:
	case f.behind && r.ahead():
		f.state, f.gen = r.kept, r.applied
	default:
		f.state = r.state
	}
	if err := f.fits("state"); err != nil {
		return err
	}
	rec := record{input: r.input, init: f.init, state: f.state, events: make([]stored, len(f.events))}
	for i, e := range f.events {
		rec.events[i] = e.stored
	}
	// The store may read the value until the commit returns, which is later than its
	// hooks: so it isn't memory that is used again.
	value := appendRecord(make([]byte, 0, recordSize(r.input, f.state, len(f.events), f.eventBytes)), &rec)
	f.size = len(value)
	f.batch.PutPrior(recordKey(), value, r.prior)
	return nil
}

// +checklocks:f.r.mu
func (f *flight) recordSize() int {
	state := f.state
	if !f.newState {
		state = f.r.state
	}
	return recordSize(f.r.input, state, len(f.events), f.eventBytes)
}

// fits refuses a record that is too large; what is what made it so. The newest state counts
// also if it isn't what is put: it has to fit with the same events some time.
//
// +checklocks:f.r.mu
func (f *flight) fits(what string) error {
	if n := f.recordSize(); n > f.r.limit {
		return &SizeError{what, n, f.r.limit}
	}
	return nil
}

// setState has the batch bring a state. After an error the batch must be given up.
//
// +checklocks:f.r.mu
func (f *flight) setState(state []byte) error {
	f.newState, f.state = true, state
	f.put()
	return f.fits("state")
}

// setEvents has the batch leave these events, sorted; the slice isn't changed any more.
// After an error the batch must be given up.
//
// +checklocks:f.r.mu
func (f *flight) setEvents(events []*event) error {
	f.newEvents, f.events, f.eventBytes = true, events, sizeOfEvents(events)
	f.put()
	return f.fits("events")
}

// leave keeps an event from running until the batch that removes it is settled.
//
// +checklocks:f.r.mu
func (f *flight) leave(e *event) {
	e.leaving = true
	f.leaving = append(f.leaving, e)
}

// commit makes memory follow the store.
func (f *flight) commit() {
	r := f.r
	r.mu.Lock()
	tell := false
	r.landed = r.actor.Seq()
	if f.size > 0 {
		r.prior = batch.Stored(f.size)
		r.applied, r.kept = f.gen, f.state
	}
	if f.newState {
		tell = string(r.state) != string(f.state)
		r.state, r.init = f.state, f.init
		r.gen++
		r.applied = r.gen
	}
	if r.applied == r.gen {
		r.crowded = false
	}
	if f.newEvents {
		r.events, r.eventBytes = f.events, f.eventBytes
	}
	r.warn()
	f.end()
	if tell && len(r.watchers) > 0 && !r.closed {
		r.tasks.Go(func() { r.tell(context.Background()) }) // not here: the commit lock is held
	}
	r.mu.Unlock()
	if f.newEvents {
		r.sched.arm()
	}
}

// abort leaves memory as it was. If a part of the batch landed nobody knows whether the
// record was in it: then it is written again.
func (f *flight) abort(reason error) {
	r := f.r
	r.mu.Lock()
	var part *batch.OrderedError
	switch {
	case f.size == 0:
	case noRoom(reason):
		f.refused = !f.newState && f.gen != r.applied && r.kept != nil && len(f.state) > len(r.kept)
		r.crowded = r.crowded || f.refused
	case errors.As(reason, &part):
		r.prior, r.kept = batch.PriorUnknown, nil
		r.gen++
		r.saveWithin(0)
	}
	f.end()
	r.mu.Unlock()
	if len(f.leaving) > 0 {
		r.sched.arm()
	}
}

// +checklocks:f.r.mu
func (f *flight) end() {
	for _, e := range f.leaving {
		e.leaving = false // that it is gone, the list says
	}
	f.r.flight = nil
	close(f.over)
}

// warnAt is the part of the limit from which on the log says that it is near.
const warnAt = 0.75

// warn says once that the record has become large.
//
// +checklocks:r.mu
func (r *Record) warn() {
	n := recordSize(r.input, r.state, len(r.events), r.eventBytes)
	large := float64(n) >= warnAt*float64(r.limit)
	if large && !r.warned {
		r.log.Warn("persist: the record is near its limit", slog.Int("bytes", n), slog.Int("limit", r.limit),
			slog.Int("state", len(r.state)), slog.Int("events", len(r.events)))
		r.count(metricLarge, 1)
	}
	r.warned = large
}
