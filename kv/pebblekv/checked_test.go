package pebblekv

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

// TestChecked: what is remembered of checked rows is what is stored, whatever writes them,
// and it is what checks are evaluated against.
func TestChecked(t *testing.T) {
	db, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	users, err := kv.NewDB(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 5))
	key := func() []byte { return fmt.Append(nil, "k", rng.IntN(40)) }
	value := func() []byte {
		return bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(2*maxCheckedValue))
	}
	newest := func(k []byte) []byte {
		v, err := db.Get(t.Context(), k, []byte{})
		if errors.Is(err, kv.ErrNotFound) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	most := 0
	for step := range 4000 {
		c := &kv.Commit{}
		conflict := false
		for range rng.IntN(3) {
			ch := kv.Check{Key: key()}
			was := newest(ch.Key)
			ch.Value, ch.Absent = was, was == nil
			if rng.IntN(10) == 0 { // not as it is
				ch.Absent, ch.Value = was != nil, []byte("other")
				conflict = true
			}
			c.Checks = append(c.Checks, ch)
			if rng.IntN(4) > 0 {
				c.Ops = append(c.Ops, kv.Set(ch.Key, value()))
			}
		}
		switch rng.IntN(100) {
		case 0, 9:
			first := key()
			c.Ops = slices.Insert(c.Ops, rng.IntN(len(c.Ops)+1), kv.ClearRange(first, append(first, byte(rng.Uint32()))))
		case 1, 2, 3, 4, 5, 6, 7, 8:
			c.Ops = append(c.Ops, kv.Clear(key()))
		case 10, 11, 12, 13, 14, 15, 16, 17, 18, 19:
			c.Ops = append(c.Ops, kv.Set(key(), value()))
		case 20, 21, 22, 23, 24, 25:
			k, v := key(), value()
			if err := users.Update(t.Context(), func(tx *kv.Tx) error {
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
			t.Fatalf("step %d: got %v, want a conflict: %v", step, err, conflict)
		}
		most = max(most, len(db.checked.rows))
		for k, row := range db.checked.rows {
			if db.checked.gone(row) {
				continue
			}
			if got := newest([]byte(k)); got == nil || !bytes.Equal(got, row.value) {
				t.Fatalf("step %d: %s is %x, and %x is remembered", step, k, got, row.value)
			}
		}
	}
	if most < 20 {
		t.Errorf("at most %d rows were remembered", most)
	}
}
