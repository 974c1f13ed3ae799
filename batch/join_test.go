package batch

import (
	"errors"
	"slices"
	"testing"
)

// TestJoin: a batch that was joined lands with the other, once, and is as it was when
// the other is refused.
func TestJoin(t *testing.T) {
	var log []string
	note := func(what string) func() { return func() { log = append(log, what) } }
	var o Batch
	o.Put([]byte("o"), []byte("1"))
	o.Final().Put([]byte("of"), []byte("2"))
	o.OnCommit(note("o commit"))
	o.OnAbort(func(error) { note("o abort")() })
	o.Late(func(b *Batch) error {
		b.Put([]byte("late"), nil)
		o.Put([]byte("own late"), nil)
		o.Final().Put([]byte("own last"), nil)
		o.Late(func(*Batch) error { o.Put([]byte("later"), nil); return nil })
		b.OnCommit(note("late commit"))
		b.OnAbort(func(error) { note("late abort")() })
		return nil
	})
	keys := func(b *Batch) (keys []string) {
		if err := b.Seal(); err != nil {
			t.Fatal(err)
		}
		for _, ops := range [][]Op{b.Ops(), b.Final().Ops()} {
			for _, op := range ops {
				keys = append(keys, string(op.Key))
			}
		}
		return keys
	}
	var b Batch
	for range 2 { // refused, and tried again
		b.Reset()
		b.Put([]byte("b"), nil)
		b.Final().Put([]byte("bf"), nil)
		b.OnCommit(note("b commit"))
		b.Join(&o)
		if got, want := keys(&b), []string{"b", "o", "late", "own late", "later", "bf", "of", "own last"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		b.Abort(errors.New("too large"))
	}
	if want := []string{"late abort", "late abort"}; !slices.Equal(log, want) || o.Settled() {
		t.Errorf("the hooks ran as %q, want %q; settled %v", log, want, o.Settled())
	}
	log = nil
	b.Reset()
	b.Join(&o)
	keys(&b)
	b.Settle(nil)
	if want := []string{"o commit", "late commit"}; !slices.Equal(log, want) || !o.Settled() {
		t.Errorf("the hooks ran as %q, want %q; settled %v", log, want, o.Settled())
	}
	defer func() {
		if recover() == nil {
			t.Error("a settled batch could be joined")
		}
	}()
	b.Reset()
	b.Join(&o)
}

// TestJoinFails: the error of a joined Late function is the batch's.
func TestJoinFails(t *testing.T) {
	want := errors.New("no")
	var o, b Batch
	o.Late(func(*Batch) error { return want })
	b.Join(&o)
	if err := b.Seal(); err != want {
		t.Errorf("got %v, want %v", err, want)
	}
	b.Abort(want)
	if o.Settled() {
		t.Error("the joined batch was settled")
	}
}
