package vfs

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Connections that want to write while another one does wait in a queue, first come,
// first served. The writer that lets go hands over to the first of them, so that none that comes
// later can be quicker. They don't ask again and again; but SQLite's busy handler is
// consulted now and then, because it decides how long a connection may wait, and so is
// the context of the statement.
//
// They wait before they read anything: SQLite announces that a transaction will write
// (beginHint). One that has read something and then wants to write can't wait: what
// it has read would be old when its turn comes. In WAL mode they don't queue: writers
// compete for the lock in SQLite's index, as they do in a file.

// turns says which connection of a database writes, and which ones wait for that.
type turns struct {
	base

	mu    sync.Mutex              // of all that connections of the database share
	owner atomic.Pointer[session] // the writer: the connection that holds RESERVED or more; set under mu
	queue []*waiter               // connections that wait for their turn  +checklocks:mu
	begun int64                   // how often a connection became the writer  +checklocks:mu
}

// owns says whether s is the writer. Only its own connection makes that true or false.
func (db *turns) owns(s *session) bool { return db.owner.Load() == s }

// patience is how long a connection waits: until its busy handler or the context of its statement wants no more waiting.
type patience struct {
	ctx  context.Context
	busy func() bool // asks the busy handler; nil: none
}

// A waiter is a connection in the queue.
type waiter struct {
	patience
	s      *session
	writes bool // else it only waits until a database torn at start-up is whole
	// turn is closed when s has become the writer, or when there is nothing to wait
	// for any more: then it looks again.
	turn  chan struct{}
	since int64 // how many had become the writer when this one queued up
}

// askAfter is how often the busy handler is asked. Most keep a time in milliseconds.
const askAfter = 5 * time.Millisecond

// await queues s up until it is its turn, and says whether that came. It lets go of
// db.mu meanwhile.
//
// +checklocks:db.mu
func (db *turns) await(s *session, p patience, writes bool) bool {
	w := &waiter{patience: p, s: s, writes: writes, turn: make(chan struct{}), since: db.begun}
	db.queue = append(db.queue, w)
	if writes {
		db.stats.writerWaits.Add(1)
	} else {
		db.stats.readerWaits.Add(1)
	}
	db.mu.Unlock()
	began := db.meter.start()
	came := w.wait()
	if writes {
		db.meter.observe(metricWaitTime, began)
	}
	db.mu.Lock()
	if came {
		return true
	}
	if i := slices.Index(db.queue, w); i >= 0 {
		db.queue = slices.Delete(db.queue, i, i+1)
		return false
	}
	return true // it came just now
}

// wait returns true when the turn comes, false when the busy handler or the context
// wants no more waiting.
func (w *waiter) wait() bool {
	ask := time.NewTicker(askAfter)
	defer ask.Stop()
	for {
		select {
		case <-w.turn:
			return true
		case <-w.ctx.Done():
			return false
		case <-ask.C:
			if w.busy == nil || !w.busy() {
				return false
			}
		}
	}
}

// passOn lets the first of the queue have its turn, after the writer has let go. free says that no turn is needed: all look again.
//
// +checklocks:db.mu
func (db *turns) passOn(free bool) {
	// Readers need no turn. If a journal was left behind, writers need none either: the
	// first connection rolls it back, and the others wait again.
	// Nor does a connection that wants to write with a journal when others are in WAL
	// mode: it will see that the database is.
	db.queue = slices.DeleteFunc(db.queue, func(w *waiter) bool {
		if w.writes && !free {
			return false
		}
		close(w.turn)
		return true
	})
	if len(db.queue) > 0 && db.owner.Load() == nil {
		w := db.queue[0]
		db.queue = slices.Delete(db.queue, 0, 1)
		db.begin(w.s)
		if behind := db.begun - w.since - 1; behind > db.stats.mostBehind.Load() {
			db.stats.mostBehind.Store(behind)
		}
		close(w.turn)
	}
}

// begin makes s the writer, which no other connection is.
//
// +checklocks:db.mu
func (db *turns) begin(s *session) {
	db.begun++
	db.owner.Store(s)
}
