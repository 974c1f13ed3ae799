package faultkv_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// TestDelay: every call takes one trip, and anything else takes none.
func TestDelay(t *testing.T) {
	const trip = 5 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		e := faultkv.New(memkv.New())
		key, ctx := []byte("k"), t.Context()
		var s kv.Snapshot
		scan := func(r kv.Reader) (err error) {
			for _, err = range r.Scan(ctx, kv.Range{}) {
			}
			return err
		}
		e.Delay(trip)
		for _, step := range []struct {
			name  string
			trips int
			do    func() error
		}{
			{"commit", 1, func() error {
				return e.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(key, key), kv.Set(append(key, 'l'), key)}})
			}},
			{"get", 1, func() error { _, err := e.Get(ctx, key, nil); return err }},
			{"scan of two entries", 1, func() error { return scan(e) }},
			{"snapshot", 1, func() (err error) { s, err = e.Snapshot(ctx); return err }},
			{"get and scan of a snapshot", 2, func() error { _, err := s.Get(ctx, key, nil); return errors.Join(err, scan(s)) }},
			{"outcome", 1, func() error { _, err := e.Outcome(ctx, kv.CommitID{1}); return err }},
			{"sync", 1, func() error { return e.Sync(ctx, e.Incarnation()) }},
			{"attempt, its read and its commit", 3, func() error {
				a, err := e.Attempt(ctx, txn.AttemptOptions{Now: time.Now})
				if err != nil {
					return err
				}
				_, got := a.Get(ctx, key, nil)
				_, err = a.Commit(ctx, &txn.Commit{Ops: []txn.Op{{Kind: kv.OpClear, Key: key}}})
				return errors.Join(got, err, a.Close())
			}},
			{"limits and closing", 0, func() error { e.Limits(); return errors.Join(s.Close(), e.Close()) }},
		} {
			start := time.Now()
			if err := step.do(); err != nil {
				t.Errorf("%s: %v", step.name, err)
			}
			if got, want := time.Since(start), time.Duration(step.trips)*trip; got != want {
				t.Errorf("%s took %v, want %v", step.name, got, want)
			}
		}
	})
}

// TestDelayEnds: a call whose context ends on the way does nothing; without a distance
// calls take no time again.
func TestDelayEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := faultkv.New(memkv.New())
		e.Delay(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := &kv.Commit{Ops: []kv.Op{kv.Set([]byte("k"), nil)}}
		if err := e.Commit(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a commit on the way returned %v", err)
		}
		e.Delay(0)
		start := time.Now()
		if _, err := e.Get(t.Context(), []byte("k"), nil); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("what was on the way is found: %v", err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("without a distance a read took %v", took)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
