package pebblekv

import (
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/greenroomdb/greenroom/kv"
)

// TestSpare: one snapshot is kept when it is closed, no second one, and none for long or
// beyond the store.
func TestSpare(t *testing.T) {
	d, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	d.spare.keep = time.Hour
	count := func() int { return d.db.Metrics().Snapshots.Count }
	for range 3 {
		a, err := d.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, err := d.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []interface{ Close() error }{b, a} {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if n := count(); n != 1 {
			t.Errorf("%d snapshots are open when all are closed, want the spare", n)
		}
	}
	d.spare.drop() // as the timer does
	if n := count(); n != 0 {
		t.Errorf("%d snapshots are open without the spare", n)
	}
	s, err := d.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil || count() != 1 {
		t.Errorf("%d snapshots, %v", count(), err)
	}
	d.spare.close()
	if n := count(); n != 0 {
		t.Errorf("%d snapshots are open at the end", n)
	}
	if s, err = d.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil || count() != 0 {
		t.Errorf("after the end %d snapshots, %v", count(), err)
	}
}

// TestSpareTimer: the timer closes the spare, each time anew.
func TestSpareTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := Open(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		s := spare{guard: d.guard, keep: time.Second}
		count := func() int { return d.db.Metrics().Snapshots.Count }
		for turn := range 2 {
			if err := s.give(s.take(d.db)); err != nil || count() != 1 {
				t.Errorf("%d snapshots, %v", count(), err)
			}
			<-time.After(2 * time.Second) // of the bubble's own time
			synctest.Wait()
			if n := count(); n != 0 {
				t.Errorf("turn %d: %d snapshots are kept for long", turn, n)
				s.drop()
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestSpareGuard: snapshots are closed in the guard, which stops what panics in Pebble.
func TestSpareGuard(t *testing.T) {
	for by, end := range map[string]func(*spare){
		"give": func(s *spare) { _ = s.give(pin{new(pebble.Snapshot), 2}) },
		"drop": (*spare).drop,
	} {
		guarded := 0
		s := spare{keep: time.Hour, guard: func(func() error) error { guarded++; return nil }}
		_ = s.give(pin{new(pebble.Snapshot), 1})
		end(&s)
		if guarded != 1 {
			t.Errorf("%s closes %d times in the guard", by, guarded)
		}
		s.timer.Stop()
	}
}

// TestSpareFullDisk: while Pebble waits for room for its list of tables, snapshots are taken and closed in any order,
// and a large commit is applied. Only the spare's own timer waits.
func TestSpareFullDisk(t *testing.T) {
	d := newDisk(vfs.NewMem())
	db, err := open("store", tiny, d)
	if err != nil {
		t.Fatal(err)
	}
	db.spare.keep = time.Hour
	snapshot := func() kv.Snapshot { // of a state of its own, or closing it frees nothing; the gate is closed
		if err := db.db.Set([]byte("row"), nil, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
		s, err := db.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	closeAll := func(all ...kv.Snapshot) {
		for _, s := range all {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	old, young := snapshot(), snapshot()
	closeAll(snapshot()) // the spare is younger than both
	waits := make(chan struct{}, 1)
	d.set(func(op errorfs.Op) error {
		if !isManifest(op) || !writes(op) {
			return nil
		}
		select {
		case waits <- struct{}{}:
		default:
		}
		return syscall.ENOSPC
	})
	if _, err := db.db.AsyncFlush(); err != nil {
		t.Fatal(err)
	}
	<-waits
	dropped := make(chan struct{})
	within(t, "closing snapshots while Pebble waits for room", func() {
		closeAll(young, old)
		go func() {
			defer close(dropped)
			db.spare.drop() // as the timer does
		}()
		for kept := true; kept; { // an older snapshot than what follows
			runtime.Gosched()
			db.spare.mu.Lock()
			kept = db.spare.kept.Snapshot != nil
			db.spare.mu.Unlock()
		}
		db.passage.begin(db.db) // as a large commit does
		db.passage.end()
		for range 100 {
			a, b, c := snapshot(), snapshot(), snapshot()
			closeAll(b, a, c)
		}
	})
	d.set(func(errorfs.Op) error { return nil })
	within(t, "the end", func() {
		<-dropped
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
