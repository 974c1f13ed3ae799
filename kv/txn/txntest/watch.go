package txntest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// watch returns a Watch for key, made in a transaction of its own.
func watch(t testing.TB, db *txn.DB, key string) (w *txn.Watch) {
	t.Helper()
	view(t, db, func(tx *txn.Tx) {
		var err error
		if w, err = tx.Watch(ctx, []byte(key)); err != nil {
			t.Fatal(err)
		}
	})
	return w
}

// wait starts to wait, and returns a channel for the result.
func wait(c context.Context, w *txn.Watch) <-chan error {
	done := make(chan error, 1)
	go func() { done <- w.Wait(c) }()
	return done
}

// A change changes the value of the key k.
type change struct {
	name   string
	change func()
}

// changesOf are the ways there are to change it.
func changesOf(t *testing.T, db *txn.DB) []change {
	engine := func(ops ...kv.Op) func() { return func() { suite.Commit(t, db.Engine(), ops...) } }
	tx := func(steps string) func() {
		return func() { update(t, db, func(tx *txn.Tx) { do(t, tx, steps) }) }
	}
	return []change{
		{"set", tx("set k 2")}, {"cleared", tx("clear k")}, {"added to", tx("add k 1")},
		{"range cleared", tx("clearrange a z")}, {"range cleared up to it", tx("clearrange a k\x00")}, {"range cleared from it", tx("clearrange k z")},
		{"engine: set", engine(suite.Set("k", "2"))}, {"engine: cleared", engine(suite.Del("k"))}, {"engine: range cleared", engine(suite.DelRange("a", "z"))},
		{"engine: range cleared up to it", engine(suite.DelRange("a", "k\x00"))}, {"engine: range cleared from it", engine(suite.DelRange("k", "z"))},
		{"engine: all cleared", engine(suite.DelRange("", "z"))},
	}
}

// testWatch: a Watch fires for another value, however it was written, also if
// that was before the waiting began.
func testWatch(t *testing.T, db *txn.DB) {
	for _, c := range changesOf(t, db) {
		for _, early := range []bool{false, true} {
			suite.Commit(t, db.Engine(), suite.Set("k", "1"))
			w := watch(t, db, "k")
			var done <-chan error
			if early {
				c.change()
				done = wait(ctx, w)
			} else {
				done = wait(ctx, w)
				update(t, db, func(tx *txn.Tx) { do(t, tx, "set other 1; set k\x00 1; set j 1") })
				c.change()
			}
			if err := <-done; err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
	// A missing key, an own write, several waits.
	suite.Commit(t, db.Engine(), suite.Del("k"))
	var w *txn.Watch
	update(t, db, func(tx *txn.Tx) {
		do(t, tx, "set k 1; add k \x01")
		var err error
		if w, err = tx.Watch(ctx, []byte("k")); err != nil {
			t.Fatal(err)
		}
		suite.WantErr(t, "Wait before the commit", w.Wait(ctx), txn.ErrCanceled)
	})
	soon, cancel := context.WithCancel(ctx)
	first, second, third := wait(ctx, w), wait(ctx, w), wait(soon, w)
	missing := wait(ctx, watch(t, db, "missing"))
	cancel()
	if err := <-third; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with a cancelled context: %v", err)
	}
	suite.Commit(t, db.Engine(), suite.Set("k", "3"), suite.Set("missing", ""))
	if err := errors.Join(<-first, <-second, <-missing); err != nil {
		t.Error(err)
	}
	// The watch of a transaction that didn't commit doesn't count.
	lost := begin(t, db)
	w, err := lost.Watch(ctx, []byte("k"))
	if err != nil {
		t.Fatal(err)
	}
	lost.Cancel()
	suite.WantErr(t, "Wait after Cancel", w.Wait(ctx), txn.ErrCanceled)
	done := wait(ctx, watch(t, db, "k"))
	if err := db.Engine().Close(); err != nil {
		t.Fatal(err)
	}
	suite.WantErr(t, "Wait on a closed engine", <-done, kv.ErrClosed)
}

// testWatchChannel: a listener at the engine is told of every commit that may have
// changed the key, be it as one of a range, and of none after stop.
func testWatchChannel(t *testing.T, db *txn.DB) {
	tr := txn.TransactorOf(db.Engine())
	for _, c := range changesOf(t, db) {
		suite.Commit(t, db.Engine(), suite.Set("k", "1"))
		changed, stop, err := tr.Watch([]byte("k"))
		if err != nil {
			t.Fatal(err)
		}
		c.change()
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Errorf("%s: the listener is not told", c.name)
		}
		stop()
		suite.Commit(t, db.Engine(), suite.Set("k", "3"), suite.DelRange("a", "z"))
		select {
		case <-changed:
			t.Errorf("%s: told after stop", c.name)
		default:
		}
	}
}

// testWatchRace: two pass a number to each other, each waiting for the other; if one
// missed a change it would wait for ever.
func testWatchRace(t *testing.T, db *txn.DB) {
	const rounds = 100
	suite.Commit(t, db.Engine(), suite.Set("n", "0"))
	play := func(turn int) error {
		for range rounds {
			for mine := false; !mine; {
				var w *txn.Watch
				err := db.Update(ctx, func(tx *txn.Tx) (err error) {
					v, err := tx.Get(ctx, []byte("n"), nil)
					if err != nil {
						return err
					}
					n, err := strconv.Atoi(string(v))
					if mine = n%2 == turn; err != nil || !mine {
						w, _ = tx.Watch(ctx, []byte("n"))
						return err
					}
					return tx.Set([]byte("n"), []byte(strconv.Itoa(n+1)))
				})
				if err == nil && !mine {
					err = w.Wait(ctx)
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- play(1) }()
	if err := errors.Join(play(0), <-done); err != nil {
		t.Fatal(err)
	}
	suite.WantGet(t, db.Engine(), "n", strconv.Itoa(2*rounds))
}

// testSize: an estimate is never negative, nor a hundred times what is stored.
func testSize(t *testing.T, db *txn.DB) {
	var ops []kv.Op
	for i := range 100 {
		ops = append(ops, kv.Set(fmt.Appendf(nil, "k%02d", i), suite.Pattern(1000, uint64(i))))
	}
	suite.Commit(t, db.Engine(), ops...)
	if err := db.Engine().Sync(ctx, db.Engine().Incarnation()); err != nil {
		t.Fatal(err)
	}
	view(t, db, func(tx *txn.Tx) {
		for _, r := range [][2][]byte{{nil, nil}, {[]byte("k"), []byte("l")}, {[]byte("l"), []byte("k")}, {nil, []byte("k")}} {
			n, err := tx.EstimatedSize(ctx, r[0], r[1])
			if err != nil || n < 0 || n > 10<<20 {
				t.Errorf("EstimatedSize(%q, %q): %d, %v", r[0], r[1], n, err)
			}
		}
	})
}

// testCheckpoint: a checkpoint can be made beside transactions. (What is in it an
// engine tests itself: only it can open one.)
func testCheckpoint(t *testing.T, db *txn.DB) {
	update(t, db, func(tx *txn.Tx) { do(t, tx, "set a 1") })
	dir := filepath.Join(t.TempDir(), "copy")
	if err := db.Checkpoint(ctx, dir); err != nil {
		t.Fatal(err)
	}
	if err := db.Checkpoint(ctx, dir); err == nil {
		t.Error("a checkpoint over another one")
	}
	update(t, db, func(tx *txn.Tx) { do(t, tx, "set a 2") })
	suite.WantGet(t, db.Engine(), "a", "2")
}

// testUnsupported: what the engine doesn't offer is refused.
func testUnsupported(t *testing.T, db *txn.DB) {
	tx := begin(t, db)
	key := []byte("k")
	for _, c := range []struct {
		name string
		cap  txn.Caps
		err  func() error
	}{
		{"AddReadConflictKey", txn.ConflictRanges, func() error { return tx.AddReadConflictKey(key) }},
		{"AddWriteConflictKey", txn.ConflictRanges, func() error { return tx.AddWriteConflictKey(key) }},
		{"SetVersionstampedKey", txn.Versionstamps, func() error { return tx.SetVersionstampedKey(incomplete("", ""), nil) }},
		{"SetVersionstampedValue", txn.Versionstamps, func() error { return tx.SetVersionstampedValue(key, incomplete("", "")) }},
		{"Watch", txn.Watching, func() error { _, err := begin(t, db).Watch(ctx, key); return err }},
		{"EstimatedSize", txn.Sizes, func() error { _, err := tx.EstimatedSize(ctx, nil, nil); return err }},
		{"Checkpoint", txn.Checkpoints, func() error { return db.Checkpoint(ctx, filepath.Join(t.TempDir(), "copy")) }},
	} {
		err := c.err()
		if caps(db).Has(c.cap) && err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if !caps(db).Has(c.cap) {
			suite.WantErr(t, c.name, err, kv.ErrUnsupported)
		}
	}
}
