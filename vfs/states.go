package vfs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
	"github.com/ncruces/go-sqlite3"
)

// states are the committed states of a database, and which connections read them.
type states struct {
	turns
	source chunked.Source // the newest state; the writer may change it, under mu
	far    bool           // the engine is, and reading ahead pays

	cur     *view // the last committed state  +checklocks:mu
	handles int   // open connections  +checklocks:mu
	holders int   // those that hold SHARED or more  +checklocks:mu
	aging         // +checklocks:mu

	// opening is held while a connection is opened, and by a writer that is alone while it
	// commits: closed says so. It is locked before mu.
	opening sync.Mutex
	closed  bool // +checklocks:mu

	// dirty: the store may differ from cur. hot: an unfinished transaction left
	// its journal behind, and the next reader rolls it back. torn: hot since
	// before this process, so that cur can't be read until that is done.
	dirty, hot, torn bool // +checklocks:mu
}

// A view is one committed state of the database. What it says never changes unless the
// only connection replaces it, but for the snapshot, which is made when the first reader
// misses its own cache, or by the writer before it first changes the store.
type view struct {
	seq    uint64 // counts up by one with every view of the database
	size   int64
	header format.Header

	snap     atomic.Pointer[pin]
	refs     int       // +checklocks:database.mu
	replaced time.Time // when the next view became the current one  +checklocks:database.mu
	gone     error     // why it can't be read any more  +checklocks:database.mu
}

// pin makes v's snapshot. It is the actor's newest state that is pinned, so v
// must be the current view and the store unchanged since v was published: the
// writer pins before its first change, unless it is alone, so for a view that another
// connection holds both are true whenever it has no snapshot yet.
//
// +checklocks:db.mu
func (db *states) pin(ctx context.Context, v *view) error {
	if v.snap.Load() != nil {
		return nil
	}
	switch {
	case v.gone != nil:
		return v.gone
	case db.torn:
		return sqlite3.BUSY_RECOVERY // no committed state can be pinned
	case v != db.cur || db.dirty:
		panic("vfs: a view lost its state before it was pinned")
	}
	snap, err := db.source.Snapshot(ctx)
	if err != nil {
		return err
	}
	v.snap.Store(newPin(snap))
	db.stats.snapshots.Add(1)
	db.watch()
	return nil
}

// pinned returns the snapshot of v, which the caller holds, for one read: it leaves
// the pin when that is done.
func (db *states) pinned(ctx context.Context, v *view) (*pin, error) {
	if p := v.snap.Load(); p != nil && p.enter() {
		return p, nil
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.pin(ctx, v); err != nil {
		return nil, err
	}
	p := v.snap.Load()
	p.enter() // it is let go of under mu only
	return p, nil
}

// change is called by the writer before the store first changes in a
// transaction: readers keep the state they have. whole says that the change is one commit of
// the engine, which ends the transaction and waits for no connection; see alone. It returns false if the store has changed
// already.
func (db *states) change(ctx context.Context, whole bool) (first bool, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case db.dirty:
		return false, nil
	case db.torn: // the change is the rollback of what tore it
	case whole && db.cur.snap.Load() == nil && db.alone():
		db.closed = true
	default:
		if err := db.pin(ctx, db.cur); err != nil {
			return false, err
		}
	}
	db.dirty = true
	return true, nil
}

// alone says whether no other connection is open, and keeps others from being opened until
// admit: then the writer replaces the current view without a snapshot of it, which is a part
// of what a small commit costs. It says no on a far engine, whose commits may take long and
// whose snapshots cost nothing.
//
// +checklocks:db.mu
func (db *states) alone() bool { return db.handles == 1 && !db.far && db.opening.TryLock() }

// admit lets connections be opened that wait because of alone.
//
// +checklocks:db.mu
func (db *states) admit() {
	if db.closed {
		db.closed = false
		db.opening.Unlock()
	}
}

// unchanged ends what change has begun, with whole, when the commit was refused. If
// anything landed the database has failed.
func (db *states) unchanged() {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		db.dirty = false
		db.admit()
	}
}

// acquire takes the current view for a reader.
//
// +checklocks:db.mu
func (db *states) acquire() *view {
	db.cur.refs++
	return db.cur
}

// release gives a view back. A view without readers drops its snapshot, so that the
// engine can discard old versions. The current view keeps it while the store holds a
// part of a transaction, because the committed state couldn't be read without it.
// Making a snapshot again costs a microsecond, and only a reader that misses its cache
// needs it.
//
// +checklocks:db.mu
func (db *states) release(v *view) {
	v.refs--
	if v.refs > 0 {
		return
	}
	if v != db.cur {
		db.forget(v)
	}
	if v != db.cur || !db.dirty {
		db.unpin(v)
	}
}

// unpin lets go of v's snapshot, if it has one.
//
// +checklocks:db.mu
func (db *states) unpin(v *view) {
	if p := v.snap.Swap(nil); p != nil {
		db.leave(p)
	}
}

// publish makes the writer's state, of size bytes and with the header hdr, the one that readers see from now on. h is the
// writer's own hold, nil if it has none.
//
// +checklocks:db.mu
func (db *states) publish(size int64, hdr *format.Header, h *hold) {
	seq := db.cur.seq
	if db.closed { // only h has the view, or ever looks at it
		db.cur.seq, db.cur.size, db.cur.header = seq+1, size, *hdr
		db.admit()
	} else {
		db.replace(&view{seq: seq + 1, size: size, header: *hdr}, h)
	}
	db.dirty, db.hot, db.torn = false, false, false
	if h != nil && h.counterSeq == seq {
		h.counterSeq = db.cur.seq // the writer's own cache is right
	}
	db.stats.published.Add(1)
}

// replace makes v the current view.
//
// +checklocks:db.mu
func (db *states) replace(v *view, h *hold) {
	old := db.cur
	db.cur = v
	if h != nil && h.view == old { // else it would hold what it has replaced itself
		old.refs--
		h.view = db.acquire()
	}
	if old.refs == 0 {
		db.unpin(old)
	} else {
		db.outdate(old)
	}
}

// leftBehind records that an unfinished transaction left its journal behind.
//
// +checklocks:db.mu
func (db *states) leftBehind() {
	if !db.hot {
		db.hot = true
		db.foundJournal()
	}
}

// newest returns the source of the newest state.
func (db *states) newest() chunked.Source {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.source
}

// exists says whether there is a database, as the last committed state says.
func (db *states) exists() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.cur.size > 0
}

// idle returns ErrBusy while connections are open.
func (db *states) idle() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.handles > 0 {
		return fmt.Errorf("%w: %q has %d", ErrBusy, db.name, db.handles)
	}
	return nil
}

// closedTo says whether s may not read now: a journal is being rolled back, or a
// connection in WAL mode has the file for itself.
//
// +checklocks:db.mu
func (db *states) closedTo(s *session) bool {
	owner := db.owner.Load()
	return owner != nil && owner != s && (db.torn || owner.strict)
}

// leftLog says whether s is leaving WAL mode: it has removed the log, and the header doesn't say so
// yet. Between the two, SQLite gives up EXCLUSIVE and asks for it again. If another connection
// opened the log meanwhile, SQLite would write the new header, and what follows, to a log that it
// believes is gone, and a VACUUM that changes the page size would then damage the file. So s keeps
// the file for itself until it needs no lock at all.
//
// https://sqlite.org/wal.html#activating_and_configuring_wal_mode
func (db *states) leftLog(s *session) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return s.strict && !s.logged
}
