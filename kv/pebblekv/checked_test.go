package pebblekv

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// TestChecked: what is remembered of checked rows is what is stored, whatever writes them,
// and it is what checks are evaluated against.
func TestChecked(t *testing.T) {
	t.Parallel()
	db, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	users, err := txn.New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 5))
	key := func() []byte { return fmt.Append(nil, "k", rng.IntN(40)) }
	value := func() []byte {
		if rng.IntN(4) == 0 {
			return nil
		}
		return bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(2*maxCheckedValue))
	}
	newest := func(k []byte) []byte { return newestOf(t, db, k) }
	most := 0
	for step := range 4000 {
		c := &kv.Commit{}
		conflict := false
		for range rng.IntN(3) {
			ch := kv.Check{Key: key()}
			was := newest(ch.Key)
			ch.Value, ch.Absent = was, was == nil
			if rng.IntN(10) == 0 { // not as it is
				if ch.Absent, ch.Value = was != nil, nil; was == nil {
					ch.Value = []byte("other")
				}
				conflict = true
			}
			c.Checks = append(c.Checks, ch)
			if rng.IntN(4) > 0 {
				c.Ops = append(c.Ops, kv.Set(ch.Key, value()))
			}
		}
		switch n := rng.IntN(100); {
		case n < 32:
			change(c, n, rng, key, value)
		case n < 38:
			k, v := key(), value()
			if err := users.Update(t.Context(), func(tx *txn.Tx) error {
				if len(v) < 10 {
					return tx.Clear(k)
				}
				return tx.Set(k, v)
			}); err != nil {
				t.Fatal(err)
			}
			conflict = false
			c = &kv.Commit{}
		}
		if err := db.Commit(t.Context(), c); errors.Is(err, kv.ErrConflict) != conflict {
			t.Fatalf("seed %d, step %d: got %v, want a conflict: %v", seed, step, err, conflict)
		}
		scribble(c) // whose bytes are its caller's again
		most = max(most, len(db.commits.memory.checked))
		for k, row := range db.commits.memory.checked {
			if db.commits.memory.gone(row.key, row.op.Load()) {
				continue
			}
			if got := newest([]byte(k)); got == nil || !bytes.Equal(got, row.value) {
				t.Fatalf("seed %d, step %d: %s is %x, and %x is remembered", seed, step, k, got, row.value)
			}
		}
	}
	if most < 10 { // else it isn't known what was compared
		t.Errorf("at most %d rows were remembered", most)
	}
}

// newestOf returns the value of k, nil for none.
func newestOf(t *testing.T, db *DB, k []byte) []byte {
	t.Helper()
	v, err := db.Get(t.Context(), k, []byte{})
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return v
}

// change adds operations on keys that needn't be checked: n says which.
func change(c *kv.Commit, n int, rng *rand.Rand, key, value func() []byte) {
	switch {
	case n < 11:
		for range 1 + rng.IntN(3) {
			first, last := key(), key()
			if rng.IntN(2) == 0 {
				last = append(slices.Clone(first), byte(rng.Uint32()))
			}
			c.Ops = slices.Insert(c.Ops, rng.IntN(len(c.Ops)+1), kv.ClearRange(first, last))
		}
	case n < 12: // too many to remember
		for range maxCleared + 1 {
			c.Ops = append(c.Ops, kv.ClearRange([]byte("k2"), []byte("k3")))
		}
	case n < 22:
		c.Ops = append(c.Ops, kv.Clear(key()))
	default:
		c.Ops = append(c.Ops, kv.Set(key(), value()))
	}
}

// scribble overwrites what c was.
func scribble(c *kv.Commit) {
	for _, o := range c.Ops {
		noise(o.Key)
		noise(o.Value)
	}
	for _, ch := range c.Checks {
		noise(ch.Key)
		noise(ch.Value)
	}
}

func noise(b []byte) {
	for i := range b {
		b[i] = '#'
	}
}

// TestCheckedBounds: what is remembered stays small, however many rows are checked and
// however long what is cleared is.
func TestCheckedBounds(t *testing.T) {
	m := newMemory(0)
	write := func(key, value []byte, more ...kv.Op) {
		m.landed(&kv.Commit{Checks: []kv.Check{{Key: key}}, Ops: append(more, kv.Set(key, value))}, new(encoding))
	}
	for i := range 2 * maxChecked {
		write(fmt.Append(nil, "row ", i), []byte("v"))
	}
	if n := len(m.checked); n != maxChecked {
		t.Errorf("%d rows", n)
	}
	long := bytes.Repeat([]byte("x"), 1<<20)
	for range 2 * maxCleared {
		write(long, nil, kv.ClearRange(long, append(bytes.Clone(long), 0)))
	}
	write([]byte("wide"), long)
	if m.checkedRow(long) != nil || m.checkedRow([]byte("wide")) != nil {
		t.Error("it remembers a megabyte")
	}
	size := 0
	for _, r := range m.cleared.ranges {
		size += cap(r.start) + cap(r.end)
	}
	if len(m.cleared.ranges) > maxCleared || size > 64<<10 {
		t.Errorf("%d ranges of %d bytes", len(m.cleared.ranges), size)
	}
	// A bound that is cut still holds what it held.
	key := long[:maxCheckedKey]
	write(key, []byte("v"))
	m.landed(&kv.Commit{Ops: []kv.Op{kv.ClearRange(long, []byte("y"))}}, new(encoding))
	if m.checkedRow(key) == nil {
		t.Error("a row before the range is gone")
	}
	m.landed(&kv.Commit{Ops: []kv.Op{kv.ClearRange(key, long)}}, new(encoding))
	if m.checkedRow(key) != nil {
		t.Error("a row in the range isn't gone")
	}
}
