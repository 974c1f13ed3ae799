package conn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/batch"
)

// Stage has b write the connections that have changed by the time that it lands, and
// delete the records of those that are gone, in the order of their ids. It may be called
// before anything has changed. If b doesn't land, all is as changed as before.
//
// b may be of either mode. One that is Atomic and too large for the store (more than 128
// connections where a single sub-batch is atomic) is refused: Save splits.
//
// Errors: ErrClosed, and the actor's.
func (s *Set) Stage(b *batch.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkLocked(); err != nil && s.pending() {
		return err
	}
	b.Late(func(b *batch.Batch) error { return s.stage(b, &write{set: s}) })
	return nil
}

// Changed returns how many connections there are at most that Stage would have written or
// deleted now: 0 says that there is nothing to save.
func (s *Set) Changed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed.Len() + len(s.deletes)
}

// Landed returns the number (actorstore.Actor.Seq) of the last commit that wrote or
// deleted records of connections, 0 if none has since Open: for who waits until that is on
// stable storage.
func (s *Set) Landed() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastLanded
}

// Save writes the connections that have changed, and deletes the records of those that
// are gone. When it returns nil all that was changed before the call is on stable storage.
// Its commits hold as much as the limits of the actor allow, one after the other: after a
// crash between them, some connections are as they were saved before.
//
// Errors: ErrClosed, and the actor's; what could not be written will be tried again.
func (s *Set) Save(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.save(ctx, nil)
}

// save is Save; with only, it deletes the record of that one and does nothing else.
func (s *Set) save(ctx context.Context, only *Conn) error {
	b := batch.Batch{Mode: batch.Ordered}
	w := &write{set: s, only: only, own: true}
	b.Late(func(b *batch.Batch) error { return s.stage(b, w) })
	if err := s.actor.Commit(ctx, &b); err != nil {
		s.failed(ctx, err, only)
		return fmt.Errorf("conn: save: %w", err)
	}
	s.release(w.queued)
	return nil
}

// A write is what a batch has of the Set, from the time at which it is sealed to that at
// which it is settled. The actor's commit lock is held in between: there is one at a time.
type write struct {
	set  *Set
	only *Conn // see save
	own  bool  // save waits for stable storage

	captured batch.Captured[ID]
	items    []item // in the order of the ids

	queued uint64 // acknowledgements queued when it had landed
}

// An item is a connection and its record; a nil one is to be deleted.
type item struct {
	conn  *Conn
	value []byte
	// What was known then.
	prior    batch.Prior
	server   Index
	received uint64
	buffered buffered
}

// stage is called by b when it is sealed, and puts together what is written.
func (s *Set) stage(b *batch.Batch, w *write) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		if s.pending() {
			return ErrClosed
		}
		return nil
	}
	w.collect()
	w.encode()
	var k []byte // a batch copies keys
	for i := range w.items {
		it := &w.items[i]
		k = appendKey(k[:0], it.conn.rec.ID)
		switch {
		case it.value != nil:
			b.PutPrior(k, it.value, it.prior)
		case it.prior != batch.Absent:
			b.DeletePrior(k, it.prior)
		}
	}
	b.OnCommit(w.landed)
	b.OnAbort(w.refused)
	return nil
}

// collect says what is written.
//
// +checklocks:w.set.mu
func (w *write) collect() {
	s := w.set
	if w.only != nil {
		if s.deletes[w.only.rec.ID] != nil { // else another save was faster
			w.items = []item{{conn: w.only, prior: w.only.prior}}
		}
		return
	}
	s.schedule.last = s.clock.Now()
	w.captured = s.changed.Capture()
	w.items = make([]item, 0, w.captured.Len()+len(s.deletes))
	for _, id := range w.captured.Keys() {
		// A connection that is gone is among the deletes. One that this very batch
		// disconnects must not come back behind its delete.
		if c := s.conns[id]; c != nil && !c.deleting {
			w.items = append(w.items, item{conn: c, prior: c.prior, value: []byte{},
				server: c.rec.Server, received: c.received, buffered: c.buffered})
			c.buffered = buffered{}
		}
	}
	for _, c := range s.deletes {
		w.items = append(w.items, item{conn: c, prior: c.prior})
	}
	slices.SortFunc(w.items, func(a, b item) int { return byID(a.conn, b.conn) })
}

// encode makes the values: one piece of memory for all, which is the batch's.
//
// +checklocks:w.set.mu
func (w *write) encode() {
	size := 0
	for i := range w.items {
		if it := &w.items[i]; it.value != nil {
			size += it.conn.rec.Size()
		}
	}
	memory := make([]byte, 0, size)
	for i := range w.items {
		if it := &w.items[i]; it.value != nil {
			n := len(memory)
			memory = it.conn.rec.Append(memory)
			it.value = memory[n:len(memory):len(memory)]
		}
	}
}

// landed is called when the batch is applied.
func (w *write) landed() {
	s := w.set
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Clear(w.captured)
	before, saved := s.acks.queued, 0
	for i := range w.items {
		it := &w.items[i]
		c := it.conn
		if it.value == nil {
			c.prior = batch.Absent
			delete(s.deletes, c.rec.ID)
			continue
		}
		saved++
		c.prior = batch.Stored(len(it.value))
		c.acknowledge(it.server, it.received)
	}
	s.count(metricSaved, saved)
	if len(w.items) > 0 {
		s.lastLanded = s.actor.Seq()
	}
	if w.only == nil {
		s.schedule.fails, s.schedule.retry = 0, time.Time{}
	}
	w.queued = s.acks.queued
	if w.queued > before && !w.own {
		// Whoever commits the batch may not wait for stable storage.
		s.syncer.Set(s.clock.Now())
	}
}

// refused is called when the batch has not landed, or only in part.
func (w *write) refused(reason error) {
	s := w.set
	s.mu.Lock()
	defer s.mu.Unlock()
	partly := isPart(reason)
	for i := range w.items {
		it := &w.items[i]
		if partly {
			it.conn.prior = batch.PriorUnknown // which ones have landed isn't said
		}
		it.conn.buffered.add(it.buffered)
	}
	if s.pending() {
		s.arm(s.opts.Interval)
	}
}

// isPart reports whether a part of the batch that was refused has landed.
func isPart(reason error) bool {
	var part *batch.OrderedError
	return errors.As(reason, &part)
}

// pending reports whether there is anything to write.
//
// +checklocks:s.mu
func (s *Set) pending() bool { return s.changed.Len() > 0 || len(s.deletes) > 0 }

// sync waits until applied saves are on stable storage, for their acknowledgements.
func (s *Set) sync() {
	s.mu.Lock()
	n := s.acks.queued
	s.mu.Unlock()
	// An empty batch is as durable as what was applied before it, and costs nothing if
	// that is durable already.
	if err := s.actor.Commit(s.ctx, new(batch.Batch)); err != nil {
		s.opts.Logger.Warn("saved connections can't be acknowledged",
			"actor", s.actor.ID().String(), "error", err)
		return
	}
	s.release(n)
}
