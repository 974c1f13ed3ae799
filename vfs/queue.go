package vfs

import (
	"slices"
	"time"
)

// Connections that want to write while another one does wait in a queue, first come,
// first served. Who lets go hands over to the first of them, so that nobody who comes
// later can be quicker. Nobody asks again and again; but SQLite's busy handler is
// consulted now and then, because it decides how long a connection may wait, and so is
// the context of the statement.
//
// They wait before they read anything: SQLite announces that a transaction will write
// (beginHint). One that has read something and then wants to write can't wait: what
// it has read would be old when its turn comes. In WAL mode there is no queue: writers
// compete for the lock in SQLite's index, as they do in a file.

// A waiter is a connection in the queue.
type waiter struct {
	h      *handle
	writes bool // else it only waits until a database torn at start-up is whole
	// turn is closed when h has become the writer, or when there is nothing to wait
	// for any more: then it looks again.
	turn  chan struct{}
	since int64 // how many had become the writer when this one queued up
}

// askAfter is how often the busy handler is asked. Most keep a time in milliseconds.
const askAfter = 5 * time.Millisecond

// await queues h up until it is its turn, and says whether that came. It lets go of
// db.mu meanwhile.
//
// +checklocks:db.mu
func (db *database) await(h *handle, writes bool) bool {
	w := &waiter{h: h, writes: writes, turn: make(chan struct{}), since: db.turns}
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
	ctx := w.h.statement()
	ask := time.NewTicker(askAfter)
	defer ask.Stop()
	for {
		select {
		case <-w.turn:
			return true
		case <-ctx.Done():
			return false
		case <-ask.C:
			if w.h.busy == nil || !w.h.busy() {
				return false
			}
		}
	}
}

// passOn lets the first of the queue have its turn, after the writer has let go.
//
// +checklocks:db.mu
func (db *database) passOn() {
	// Readers need no turn. If a journal was left behind, nobody does: whoever
	// comes first rolls it back, and the others wait again.
	// Nor does a connection that wants to write with a journal when others are in WAL
	// mode: it will see that the database is.
	db.queue = slices.DeleteFunc(db.queue, func(w *waiter) bool {
		if w.writes && !db.hot && db.wal.users == 0 {
			return false
		}
		close(w.turn)
		return true
	})
	if len(db.queue) > 0 && db.owner.Load() == nil {
		w := db.queue[0]
		db.queue = slices.Delete(db.queue, 0, 1)
		db.begin(w.h)
		if behind := db.turns - w.since - 1; behind > db.stats.mostBehind.Load() {
			db.stats.mostBehind.Store(behind)
		}
		close(w.turn)
	}
}

// begin makes h the writer. There is none.
//
// +checklocks:db.mu
func (db *database) begin(h *handle) {
	db.turns++
	db.owner.Store(h)
}

// BusyHandler is told the function that decides whether this connection goes on
// waiting (SQLITE_FCNTL_BUSYHANDLER).
//
// https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlbusyhandler
func (h *handle) BusyHandler(handler func() bool) { h.busy = handler }
