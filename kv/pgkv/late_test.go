//go:build unix

package pgkv

import (
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// COMMIT is still on its way when its sender asks what became of it. That it was not
// applied must stay true when it gets there.
func TestLateCommit(t *testing.T) {
	p, through := pgtest.NewProxy(t, newURL(t))
	db := openAt(t, through, &Options{RetryFor: -1, Calls: 1})
	if err := db.Commit(ctx, &kv.Commit{ID: kv.CommitID{9}, Ops: []kv.Op{set("a", "0")}}); err != nil {
		t.Fatal(err)
	}
	p.Set(pgtest.Hold, pgtest.Pass)
	done := make(chan error, 1)
	go func() {
		done <- db.Commit(ctx, &kv.Commit{ID: kv.CommitID{1}, Checks: []kv.Check{is("a", "0")}, Ops: []kv.Op{set("a", "1")}})
	}()
	p.Await()
	links := p.Cut(false)
	if err := <-done; !errors.Is(err, kv.ErrUnknownOutcome) {
		t.Fatalf("Commit: got %v, want %v", err, kv.ErrUnknownOutcome)
	}
	p.Set(pgtest.Pass, pgtest.Pass)
	if got, err := db.Outcome(ctx, kv.CommitID{1}); got != kv.OutcomeNotApplied || err != nil {
		t.Fatalf("Outcome: got %v, %v, want %v", got, err, kv.OutcomeNotApplied)
	}
	for _, k := range links {
		if err := k.LetGo(); err != nil {
			t.Fatal(err)
		}
	}
	wantGet(t, db, "a", "0")
}

// The same when the DB was closed meanwhile, and the commit was tried again: what comes
// late must not undo what others have done since, or add a second time.
func TestLateCommitAfterClose(t *testing.T) {
	for name, send := range map[string]func(db *DB) error{
		"commit": func(db *DB) error {
			return db.Commit(ctx, &kv.Commit{ID: kv.CommitID{1}, Ops: []kv.Op{set("a", "\x01")}})
		},
		"addition": func(db *DB) error {
			txs, err := txn.New(db, nil)
			if err != nil {
				return err
			}
			return txs.Update(ctx, func(tx *txn.Tx) error { return tx.Atomic(txn.MutationAdd, []byte("a"), []byte{1}) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := newURL(t)
			p, through := pgtest.NewProxy(t, url)
			other := openAt(t, url, nil)
			db := openAt(t, through, &Options{Calls: 1})
			if err := db.Commit(ctx, &kv.Commit{ID: kv.CommitID{9}, Ops: []kv.Op{set("a", "\x00")}}); err != nil {
				t.Fatal(err)
			}
			p.Set(pgtest.Hold, pgtest.Pass)
			done := make(chan error, 1)
			go func() { done <- send(db) }()
			p.Await()
			p.Set(pgtest.Pass, pgtest.Pass)
			links := p.Cut(false)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			wantGet(t, other, "a", "\x01")
			if err := other.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("a", "\x05")}}); err != nil {
				t.Fatal(err)
			}
			for _, k := range links {
				if err := k.LetGo(); err != nil {
					t.Fatal(err)
				}
			}
			wantGet(t, other, "a", "\x05")
		})
	}
}
