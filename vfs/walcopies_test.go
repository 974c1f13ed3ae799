package vfs_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestWALCopies: while a writer is at work in WAL mode, with checkpoints, with a log that
// begins anew, and with transactions that are stored in parts, every copy of the database
// is a state that was committed, and one of the time when it was made: a view, a fork, an
// export, and the export of a view.
func TestWALCopies(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]batch.Limits{"atomic": {}, "in parts": oneBatch} {
		t.Run(name, func(t *testing.T) { copyLogged(t, limits) })
	}
}

func copyLogged(t *testing.T, limits batch.Limits) {
	r := newRig(t, limits)
	db := r.open(t, &vfs.Options{TxMemory: 1, Pragmas: []string{"journal_mode=wal", "cache_size=5", "wal_autocheckpoint=30"}})
	exec(t, db, "create table t(a integer primary key, n, b)")
	exec(t, db, "insert into t(n, b) select 0, randomblob(1500) from generate_series(1, 60)")
	w := &loggedWriter{db: db}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.write(t.Context(), ctx) }()
	for range testkit.Pick(3, 5, 12) {
		copyOnce(t, r, w)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	t.Logf("%d transactions, %+v", w.acked.Load(), db.Stats())
	w.look(t, "the database", db, w.acked.Load())
	rig.Exact(t, r.Actor)
}

// A loggedWriter changes all rows of a table, again and again, to the number of the transaction.
type loggedWriter struct {
	db           *vfs.DB
	begun, acked atomic.Int64 // numbers of transactions
}

// write goes on until stop is done.
func (w *loggedWriter) write(ctx, stop context.Context) (err error) {
	for n := int64(1); err == nil && stop.Err() == nil; n++ {
		w.begun.Store(n)
		size := 1500
		if n%16 == 0 {
			size = 40_000 // more than memory takes
		}
		_, err = w.db.ExecContext(ctx, "update t set n = ?, b = randomblob(?)", n, size)
		w.acked.Store(n)
	}
	return err
}

// look holds a copy that was made after the transaction low was acknowledged.
func (w *loggedWriter) look(t *testing.T, what string, c queryer, low int64) {
	t.Helper()
	intact(t, c)
	least, most := one[int64](t, c, "select min(n) from t"), one[int64](t, c, "select max(n) from t")
	if rows := one[int](t, c, "select count(*) from t"); least != most || rows != 60 {
		t.Errorf("%s has %d rows, of transactions %d to %d", what, rows, least, most)
	}
	if least < low || most > w.begun.Load() {
		t.Errorf("%s has transaction %d, it was made after %d", what, most, low)
	}
}

// copyOnce makes a copy of each kind, and looks at it.
func copyOnce(t *testing.T, r *fixture, w *loggedWriter) {
	t.Helper()
	low := w.acked.Load()
	var image bytes.Buffer
	if _, err := w.db.Export(t.Context(), &image); err != nil {
		t.Fatal(err)
	}
	w.look(t, "an export", openFile(t, image.Bytes()), low)

	low = w.acked.Load()
	view, err := r.Store.View(t.Context(), r.Actor.ID())
	if err != nil {
		t.Fatal(err)
	}
	shown, err := vfs.OpenView(t.Context(), view, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.look(t, "a view", shown, low)
	image.Reset()
	if _, err := shown.Export(t.Context(), &image); err != nil {
		t.Fatal(err)
	}
	w.look(t, "an export of a view", openFile(t, image.Bytes()), low)
	if err := shown.Close(); err != nil {
		t.Error(err)
	}
	if err := view.Close(); err != nil {
		t.Error(err)
	}

	low = w.acked.Load()
	snap, err := r.Actor.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.look(t, "a fork", openFork(t, r, snap), low)
	if err := snap.Close(); err != nil {
		t.Error(err)
	}
}
