package vfs

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/vfs/internal/format"
	"github.com/ncruces/go-sqlite3"
)

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
func (db *database) pin(ctx context.Context, v *view) error {
	if v.snap.Load() != nil {
		return nil
	}
	switch {
	case v.gone != nil:
		return v.gone
	case db.torn:
		return sqlite3.BUSY_RECOVERY // there is no committed state to pin
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
func (db *database) pinned(ctx context.Context, v *view) (*pin, error) {
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

// beginChange is called by the writer before the store first changes in a
// transaction: readers keep the state they have. whole says that the change is one commit of
// the engine, which ends the transaction and waits for no connection; see alone.
func (db *database) beginChange(ctx context.Context, whole bool) error {
	if err := db.takeOver(ctx); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case db.dirty:
		return nil
	case db.torn: // the change is the rollback of what tore it
	case whole && db.cur.snap.Load() == nil && alone(db):
		db.closed = true
	default:
		if err := db.pin(ctx, db.cur); err != nil {
			return err
		}
	}
	db.dirty = true
	db.main.Reader = db.source // from now on only the newest state is the writer's
	return nil
}

// alone says whether no other connection is open, and keeps others from being opened until
// admit: then the writer replaces the current view without a snapshot of it, which is a part
// of what a small commit costs. It says no on a far engine, whose commits may take long and
// whose snapshots cost nothing.
//
// +checklocks:db.mu
func alone(db *database) bool { return db.handles == 1 && db.ahead == nil && db.opening.TryLock() }

// admit lets connections be opened that wait because of alone.
//
// +checklocks:db.mu
func admit(db *database) {
	if db.closed {
		db.closed = false
		db.opening.Unlock()
	}
}

// unchanged ends what beginChange has begun, with whole, when the commit was refused. If
// anything landed the database has failed.
func unchanged(db *database) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		db.dirty = false
		admit(db)
	}
}

// acquire takes the current view for a reader.
//
// +checklocks:db.mu
func (db *database) acquire() *view {
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
func (db *database) release(v *view) {
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
func (db *database) unpin(v *view) {
	if p := v.snap.Swap(nil); p != nil {
		db.leave(p)
	}
}

// publish makes the writer's state the one that readers see from now on.
//
// +checklocks:db.mu
func (db *database) publish(h *handle) {
	seq := db.cur.seq
	if db.closed { // only h has the view, or ever looks at it
		db.cur.seq, db.cur.size, db.cur.header = seq+1, db.main.Size(), db.header
		admit(db)
	} else {
		replaceView(db, h)
	}
	db.dirty, db.hot, db.torn = false, false, false
	db.main.Reader = db.source
	if h != nil && h.counterSeq == seq {
		h.counterSeq = db.cur.seq // the writer's own cache is right
	}
	db.stats.published.Add(1)
}

// replaceView makes the writer's state the current view.
//
// +checklocks:db.mu
func replaceView(db *database, h *handle) {
	old := db.cur
	db.cur = &view{seq: old.seq + 1, size: db.main.Size(), header: db.header}
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
