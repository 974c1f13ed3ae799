package txn_test

import (
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// TestCommitWith commits a transaction beside a commit of the engine; then one of them is refused.
func TestCommitWith(t *testing.T) {
	ctx := t.Context()
	set := func(e kv.Engine, key, value string) {
		t.Helper()
		if err := e.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte(key), []byte(value))}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		before func(e kv.Engine) // when the transaction has read
		check  kv.Check          // of the engine's commit
		in     kv.Incarnation
		want   error
		not    error
	}{
		{name: "both", check: kv.Check{Key: []byte("owner"), Value: []byte("me")}},
		{name: "an absent key", check: kv.Check{Key: []byte("nothing"), Absent: true}},
		{name: "an owner that was another one all the time", check: kv.Check{Key: []byte("owner"), Value: []byte("you")}, want: kv.ErrConflict, not: txn.ErrStale},
		{name: "an owner that is there", check: kv.Check{Key: []byte("owner"), Absent: true}, want: kv.ErrConflict, not: txn.ErrStale},
		{name: "another owner since", before: func(e kv.Engine) { set(e, "owner", "you") }, check: kv.Check{Key: []byte("owner"), Value: []byte("me")}, want: kv.ErrConflict, not: txn.ErrStale},
		{name: "what was read has changed", before: func(e kv.Engine) { set(e, "read", "2") }, check: kv.Check{Key: []byte("owner"), Value: []byte("me")}, want: txn.ErrStale, not: kv.ErrConflict},
		{name: "another incarnation", check: kv.Check{Key: []byte("owner"), Value: []byte("me")}, in: 7, want: kv.ErrIncarnation},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := memkv.New()
			defer e.Close()
			set(e, "owner", "me")
			set(e, "read", "1")
			db, err := txn.New(e, nil)
			if err != nil {
				t.Fatal(err)
			}
			tx, err := db.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if tx.Writes() {
				t.Error("it writes before anything was written")
			}
			if _, err := tx.Get(ctx, []byte("read"), nil); err != nil {
				t.Fatal(err)
			}
			if err := tx.Set([]byte("mine"), []byte("x")); err != nil || !tx.Writes() {
				t.Fatal(err, tx.Writes())
			}
			if c.before != nil {
				c.before(e)
			}
			applied := false
			id := kv.CommitID{1}
			err = tx.CommitWith(ctx, &kv.Commit{ID: id, In: c.in, Checks: []kv.Check{c.check}, Ops: []kv.Op{
				kv.ClearRange([]byte("a"), []byte("b")), kv.Set([]byte("owned"), make([]byte, 200_000)), kv.Clear([]byte("read")),
			}, OnApply: func() { applied = true }})
			if !errors.Is(err, c.want) || c.not != nil && errors.Is(err, c.not) || c.want != nil && !errors.Is(err, kv.ErrNotApplied) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			_, errMine := e.Get(ctx, []byte("mine"), nil)
			_, errOwned := e.Get(ctx, []byte("owned"), nil)
			outcome, _ := e.Outcome(ctx, id)
			there := c.want == nil
			if (errMine == nil) != there || (errOwned == nil) != there || applied != there || (outcome == kv.OutcomeApplied) != there {
				t.Errorf("the transaction's key: %v, the commit's: %v, applied %v, outcome %v", errMine, errOwned, applied, outcome)
			}
			if err := tx.CommitWith(ctx, &kv.Commit{}); err == nil {
				t.Error("a second commit")
			}
		})
	}
	db, err := txn.New(memkv.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(ctx, func(tx *txn.Tx) error { return tx.CommitWith(ctx, &kv.Commit{}) })
	if !errors.Is(err, txn.ErrManaged) {
		t.Errorf("in Update: %v", err)
	}
}
