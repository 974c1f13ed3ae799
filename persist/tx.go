package persist

import (
	"bytes"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/batch"
)

// A Tx is what one batch does to a Record: changes of the state and of the schedule that
// are made when the batch lands, or not at all. They are computed while the batch is being
// committed, one after the other, from the record as it is then. Until the batch has landed
// every reader sees the record without them, but for RawState and List of the Tx itself.
//
// However much of the record a batch changes, it is written once. A record that has become
// too large fails the commit with a *SizeError. Of an Ordered batch the record is in the
// last sub-batch, so that it isn't stored if only a part of the batch lands.
//
// A record that is written has the mark that the actor is initialised. One without the mark
// is from another program, which hasn't come to the actor's first state, or from an older
// version of this one.
//
// The methods of a Tx return batch.ErrSettled if the batch has landed or was given up,
// ErrClosed, and the errors of the actor. Like its batch, a Tx is not safe for concurrent use.
type Tx struct {
	r    *Record
	b    *batch.Batch
	ops  []func(t *Tx) error // in order; the argument is where their changes go
	done int                 // how many of them have run

	// What follows belongs to the commit that is under way, and so to the actor's commit lock.
	entry      batch.Entry
	init       bool
	state      []byte
	newState   bool
	events     []*event // sorted; the slice never changes
	eventBytes int
	leaving    []*event // that the batch removes
	changed    bool     // since the record was written
	size       int      // of the record that was written, 0 if none was

	// shown is the record as RawState or List showed it last, with the first shown.done of
	// ops applied; nil if the next call has to begin anew.
	shown   *Tx
	preview bool   // it is one that is shown, and belongs to no commit
	base    uint64 // of one that is shown: Record.landings when it began
}

// participant is a Tx as its batch sees it.
type participant Tx

// In returns what b does to the record: the same Tx each time. A participant that stages
// while b is being sealed calls In then, so that what it stages lands too.
func (r *Record) In(b *batch.Batch) *Tx {
	return (*Tx)(batch.In(b, r, func() *participant { return &participant{r: r, b: b} }))
}

// do makes op a part of the commit of the batch.
func (t *Tx) do(op func(t *Tx) error) error {
	if err := t.b.EnlistAgain(t.r, (*participant)(t)); err != nil {
		return err
	}
	if err := t.r.check(); err != nil {
		return err
	}
	t.ops = append(t.ops, op)
	return nil
}

// SetRawState replaces the state by one value in CBOR, of which it keeps a copy; empty is
// undefined, and anything else is an error. A state that is what it was isn't written, unless
// the record doesn't have the mark that the actor is initialised.
//
// A state that is computed from the one before, as by greenroom.Mutate, also replaces what
// another batch has landed meanwhile: such callers have to take turns.
func (t *Tx) SetRawState(value []byte) error {
	if len(value) == 0 {
		value = undefined
	}
	if err := wellformed("state", value); err != nil {
		return err
	}
	state := bytes.Clone(value)
	return t.do(func(t *Tx) error {
		if !t.init || !bytes.Equal(t.state, state) {
			t.init, t.state, t.newState, t.changed = true, state, true, true
		}
		return nil
	})
}

// setEvents has the batch leave these events, sorted; the slice isn't changed any more.
func (t *Tx) setEvents(events []*event) {
	t.events, t.eventBytes, t.changed = events, sizeOfEvents(events), true
}

// leave keeps an event from running until the batch that removes it is settled.
//
// +checklocks:t.r.mu
func (t *Tx) leave(e *event) {
	if t.preview {
		return
	}
	e.leaving = true
	t.leaving = append(t.leaving, e)
}

// stay undoes leave, and reports whether there was anything to undo.
//
// +checklocks:t.r.mu
func (t *Tx) stay() bool {
	some := len(t.leaving) > 0
	for _, e := range t.leaving {
		e.leaving = false
	}
	t.leaving = nil
	return some
}

// begin prepares t for a commit, unless it is prepared already.
func (t *Tx) begin() error {
	r := t.r
	r.mu.Lock()
	defer r.mu.Unlock()
	switch first, open := t.entry.Enter(t.b, &r.gate); {
	case !open:
		return ErrClosed // a Record that was opened since doesn't know what is staged here
	case first:
		if err := r.usable(); err != nil {
			return err
		}
		t.stay() // what an earlier commit was to remove
		t.done, t.changed, t.newState, t.size = 0, false, false, 0
		t.copyRecord()
	}
	return nil
}

// over follows the batch, whatever became of it: events that were to leave, and are there
// still, may run.
func (t *Tx) over(changed bool) {
	t.r.mu.Lock()
	changed = t.stay() || changed
	t.r.mu.Unlock()
	if changed {
		t.r.sched.arm()
	}
}

// copyRecord has t begin with the record as it is.
//
// +checklocks:t.r.mu
func (t *Tx) copyRecord() {
	r := t.r
	t.init, t.state, t.events, t.eventBytes = r.init, r.state, r.events, r.eventBytes
}

// RawState returns the state, in CBOR, as it will be when the batch lands: by what the
// batch has asked for so far, on the record as it is now. The slice
// must not be changed. An error may be one that the commit will fail with.
func (t *Tx) RawState() ([]byte, error) {
	p, err := t.show()
	if err != nil {
		return nil, err
	}
	return p.state, nil
}

// List returns the events as they will be when the batch lands, the next first; see
// RawState. An event that the batch adds has its id already, and can be cancelled.
func (t *Tx) List() ([]Event, error) {
	p, err := t.show()
	if err != nil {
		return nil, err
	}
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	return export(p.events), nil
}

// show returns a Tx that has the record as it will be, and belongs to no commit: the one
// of the call before with what was asked for since, unless another batch has landed.
func (t *Tx) show() (*Tx, error) {
	if t.b.Settled() {
		return nil, batch.ErrSettled
	}
	p := t.shown
	t.shown = nil // also if an op fails midway
	t.r.mu.Lock()
	if p == nil || p.base != t.r.landings {
		p = &Tx{r: t.r, b: t.b, preview: true, base: t.r.landings}
		p.copyRecord()
	}
	err := t.r.usable()
	t.r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for p.done < len(t.ops) {
		if err := t.ops[p.done](p); err != nil {
			return nil, err
		}
		p.done++
	}
	t.shown = p
	return p, nil
}

// Late runs what was asked for since the last call, and writes the record.
func (p *participant) Late(*batch.Batch) error {
	t := (*Tx)(p)
	if err := t.begin(); err != nil {
		return err
	}
	for t.done < len(t.ops) {
		op := t.ops[t.done]
		t.done++
		if err := op(t); err != nil {
			return err
		}
	}
	return t.write()
}

// write stages the record, if it has changed.
func (t *Tx) write() error {
	r := t.r
	if !t.changed {
		return nil
	}
	t.changed = false
	size := recordSize(r.input, t.state, len(t.events), t.eventBytes)
	if size > r.limit {
		what := "events"
		if t.newState {
			what = "state"
		}
		return &SizeError{what, size, r.limit}
	}
	rec := record{input: r.input, init: true, state: t.state, events: make([]stored, len(t.events))}
	for i, e := range t.events {
		rec.events[i] = e.stored
	}
	// The store may read the value until the commit returns, which is after Landed, so its
	// memory isn't used again.
	value := appendRecord(make([]byte, 0, size), &rec)
	t.size = len(value)
	r.mu.Lock()
	defer r.mu.Unlock()
	t.b.Final().PutPrior(recordKey(), value, r.prior)
	for _, e := range t.events {
		t.wakeBy(e)
	}
	return nil
}

// wakeBy has the actor be awake when the event is due.
//
// +checklocks:t.r.mu
func (t *Tx) wakeBy(e *event) {
	if !t.preview && e.waiting() {
		t.b.WakeBy(time.UnixMilli(e.due()))
	}
}

// Landed makes memory follow the store.
func (p *participant) Landed() {
	t := (*Tx)(p)
	r := t.r
	if t.size > 0 {
		r.mu.Lock()
		r.prior, r.init, r.state = batch.Stored(t.size), true, t.state
		r.events, r.eventBytes = t.events, t.eventBytes
		r.landings++
		r.warn()
		r.mu.Unlock()
	}
	t.over(t.size > 0)
}

// Failed changes nothing: a part of a batch that has landed doesn't have the record.
func (p *participant) Failed(error, bool) { (*Tx)(p).over(false) }

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
		r.meter.Count(metricLarge, 1)
	}
	r.warned = large
}
