package pebblekv

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
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
			if err := s.give(d.db.NewSnapshot()); err != nil || count() != 1 {
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
		"give": func(s *spare) { _ = s.give(new(pebble.Snapshot)) },
		"drop": (*spare).drop,
	} {
		guarded := 0
		s := spare{keep: time.Hour, guard: func(func() error) error { guarded++; return nil }}
		_ = s.give(new(pebble.Snapshot))
		end(&s)
		if guarded != 1 {
			t.Errorf("%s closes %d times in the guard", by, guarded)
		}
		s.timer.Stop()
	}
}
