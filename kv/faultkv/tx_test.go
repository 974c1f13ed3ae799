package faultkv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

func newDB(t *testing.T) (*faultkv.Engine, *txn.DB) {
	t.Helper()
	e := faultkv.New(memkv.New())
	// Attempts are counted: none may be one more because the test was held up.
	db, err := txn.New(e, &txn.Options{MaxAttempts: 3, Backoff: 1, MaxBackoff: 1, MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return e, db
}

// TestTxCounts: what transactions do is counted.
func TestTxCounts(t *testing.T) {
	ctx := context.Background()
	e, db := newDB(t)
	err := db.Update(ctx, func(tx *txn.Tx) error {
		_, err := tx.Get(ctx, []byte("a"), nil)
		if !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		for _, err := range tx.Scan(ctx, kv.Range{}) {
			return err
		}
		return errors.Join(tx.Set([]byte("k"), []byte("value")), tx.ClearRange([]byte("x"), []byte("y")))
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(ctx, func(tx *txn.Tx) error {
		_, err := tx.Get(ctx, []byte("k"), nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := faultkv.Counts{Gets: 2, Scans: 1, Commits: 1, Durable: 1, Ops: 2, Bytes: 8, Attempts: 2}
	if got := e.Counts(); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestTxFaults: faults meet transactions at the points of their reads and commits.
func TestTxFaults(t *testing.T) {
	ctx := context.Background()
	mine := errors.New("mine")
	for _, c := range []struct {
		name     string
		rule     faultkv.Rule
		want     error
		attempts int
		applied  bool
	}{
		{"attempt", faultkv.Rule{Point: faultkv.BeforeAttempt, Err: mine}, mine, 1, false},
		{"read", faultkv.Rule{Point: faultkv.BeforeGet, Err: mine}, mine, 1, false},
		{"entry", faultkv.Rule{Point: faultkv.BeforeEntry, Err: mine}, mine, 1, false},
		{"commit", faultkv.Rule{Point: faultkv.BeforeCommit, Match: faultkv.Key([]byte("sum")), Err: mine}, mine, 1, false},
		{"another commit", faultkv.Rule{Point: faultkv.BeforeCommit, Match: faultkv.Key([]byte("other")), Err: mine}, nil, 1, true},
		{"read conflict, twice", faultkv.Rule{Point: faultkv.BeforeGet, Err: kv.ErrConflict, Times: 2}, nil, 3, true},
		{"commit conflict, for ever", faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrConflict, Times: faultkv.Forever}, kv.ErrConflict, 3, false},
		// The engine knows better.
		{"acknowledgement lost", faultkv.Rule{Point: faultkv.AfterApply, Err: kv.ErrUnknownOutcome}, nil, 1, true},
		{"commit lost", faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrUnknownOutcome}, kv.ErrUnknownOutcome, 1, false},
		{"not durable", faultkv.Rule{Point: faultkv.AfterCommit, Err: kv.ErrPoisoned}, kv.ErrPoisoned, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, db := newDB(t)
			if err := e.Unwrap().Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte("a"), nil)}}); err != nil {
				t.Fatal(err)
			}
			e.Fail(c.rule)
			attempts := 0
			err := db.Update(ctx, func(tx *txn.Tx) error {
				attempts++
				if _, err := tx.Get(ctx, []byte("a"), nil); err != nil {
					return err
				}
				for _, err := range tx.Scan(ctx, kv.Range{}) {
					if err != nil {
						return err
					}
				}
				return tx.Atomic(txn.MutationAdd, []byte("sum"), []byte{1})
			})
			if c.want == nil && err != nil || !errors.Is(err, c.want) || attempts != c.attempts {
				t.Errorf("got error %v after %d attempts, want %v after %d", err, attempts, c.want, c.attempts)
			}
			_, err = e.Unwrap().Get(ctx, []byte("sum"), nil)
			if (err == nil) != c.applied {
				t.Errorf("applied: %v, want %v", err, c.applied)
			}
		})
	}
}

// TestTxTear: no more than so many commits of transactions land.
func TestTxTear(t *testing.T) {
	ctx := context.Background()
	e, db := newDB(t)
	e.Tear(2)
	for i := range 4 {
		err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Set([]byte{byte('a' + i)}, nil) })
		if i < 2 && err != nil || i >= 2 && !errors.Is(err, faultkv.ErrTorn) {
			t.Errorf("commit %d: %v", i, err)
		}
	}
	n := 0
	for range e.Unwrap().Scan(ctx, kv.Range{}) {
		n++
	}
	if n != 2 {
		t.Errorf("%d commits landed", n)
	}
}

// TestTxUnsupported: over an engine without transactions there are none.
func TestTxUnsupported(t *testing.T) {
	e := faultkv.New(struct{ kv.Engine }{memkv.New()})
	if _, err := txn.New(e, nil); !errors.Is(err, kv.ErrUnsupported) || e.TxCaps() != 0 {
		t.Errorf("got %v, %b", err, e.TxCaps())
	}
	_, err := e.Attempt(context.Background(), txn.AttemptOptions{})
	_, _, werr := e.Watch(nil)
	_, serr := e.EstimatedSize(context.Background(), nil, nil)
	for _, err := range []error{err, werr, serr, e.Checkpoint(context.Background(), "")} {
		if !errors.Is(err, kv.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	}
}
