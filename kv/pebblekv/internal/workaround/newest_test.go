package workaround

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// largeBatch returns a batch that sets twenty keys to n, and is large for Pebble.
func (r *rig) largeBatch(n int) *pebble.Batch {
	b := r.db.NewBatch()
	for i := range 80 {
		var err error
		if key := fmt.Appendf(nil, "k%02d", i); i < 20 {
			err = b.Set(key, []byte(strconv.Itoa(n)), nil)
		} else {
			err = b.Delete(key, nil)
		}
		if err != nil {
			r.Fatal(err)
		}
	}
	return b
}

// rounds returns what an iterator yields, each value once.
func (r *rig) rounds(it *pebble.Iterator, err error) (seen string) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
	keys := 0
	for ok := it.First(); ok; ok = it.Next() {
		if keys++; seen != string(it.Value()) {
			seen += string(it.Value())
		}
	}
	if err := it.Close(); keys != 20 || err != nil {
		r.Errorf("%d rows, %v", keys, err)
	}
	return seen
}

// TestReadsBesideLargeBatch reads while a large batch is applied: nothing waits, and what is seen is the state before, also when that is
// flushed and compacted.
func TestReadsBesideLargeBatch(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	n := r.newest
	small := r.db.NewBatch()
	for want, b := range map[uint64]*pebble.Batch{0: small, 2: r.largeBatch(1)} {
		before := n.turns.Load()
		if err := errors.Join(n.Apply(b), b.Close()); err != nil || n.turns.Load()-before != want {
			t.Fatalf("%d turns, %v, want %d", n.turns.Load()-before, err, want)
		}
	}
	n.begin()
	b := r.largeBatch(2)
	if err := errors.Join(r.db.Apply(b, pebble.NoSync), b.Close(), r.db.Flush()); err != nil {
		t.Fatal(err)
	}
	pin := n.Pin()
	v, closer, err := n.Get([]byte("k00"))
	if err != nil || string(v) != "1" {
		t.Fatalf("Get: %q, %v", v, err)
	}
	if _, _, err := n.Get([]byte("none")); err != pebble.ErrNotFound {
		t.Errorf("Get of a missing key: %v", err)
	}
	if got := r.rounds(n.NewIterWithContext(t.Context(), nil)); got != "1" {
		t.Errorf("while it is applied: %s", got)
	}
	n.end()
	if got := r.rounds(n.NewIterWithContext(t.Context(), nil)); got != "2" {
		t.Errorf("afterwards: %s", got)
	}
	if string(v) != "1" {
		t.Errorf("what was read is %q when the snapshot is gone", v)
	}
	for round := 3; round < 20; round++ { // flushed and compacted over and over
		b := r.largeBatch(round)
		if err := errors.Join(n.Apply(b), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.rounds(pin.NewIter(nil)); got != "1" {
		t.Errorf("the snapshot shows %s", got)
	}
	if err := closer.Close(); err != nil {
		t.Error(err)
	}
	r.unpin(pin)
	r.close()
}
