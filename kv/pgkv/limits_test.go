//go:build unix

package pgkv

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

// TestRequests: however much a commit holds, no request of it is much larger than
// maxRequest; one that can't be made smaller is refused, once.
func TestRequests(t *testing.T) {
	t.Parallel()
	db := open(t)
	db.message = maxRequest + 1<<20
	key := func(i int) []byte { return append(fmt.Appendf(nil, "k%06d", i), bytes.Repeat([]byte("x"), 2500)...) }
	const n = 2*maxRequest/2500 + 10
	var sets, clears []kv.Op
	var checks, absents []kv.Check
	value := bytes.Repeat([]byte("v"), 100)
	for i := range n {
		k := key(i)
		sets = append(sets, kv.Set(k, value))
		clears = append(clears, kv.Clear(k))
		checks = append(checks, kv.Check{Key: k, Value: value})
		absents = append(absents, kv.Check{Key: k, Absent: true})
	}
	all := kv.ClearRange([]byte("k"), []byte("l"))
	for _, c := range []struct {
		name string
		kv.Commit
		rows int
	}{
		{"sets", kv.Commit{Ops: sets}, n},
		{"a cleared range with sets", kv.Commit{Ops: append([]kv.Op{set("l", "gone"), set("k00000", "gone"), all}, sets...)}, n},
		{"checks", kv.Commit{Checks: checks, Ops: []kv.Op{set("x", "1")}}, n},
		{"clears", kv.Commit{Ops: clears}, 0},
		{"absent keys", kv.Commit{Checks: absents, Ops: append([]kv.Op{all}, sets...)}, n},
	} {
		c.Commit.Durability = kv.Applied
		if err := db.Commit(ctx, &c.Commit); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		rows := 0
		for _, err := range db.Scan(ctx, kv.Range{Start: []byte("k"), End: []byte("l")}) {
			if err != nil {
				t.Fatal(err)
			}
			rows++
		}
		if rows != c.rows {
			t.Errorf("%s: %d rows, want %d", c.name, rows, c.rows)
		}
	}
	db.message = 1000
	before := db.trips.Load()
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte("a"), make([]byte, 2000))}}); !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, kv.ErrTooLarge)
	}
	if got := db.trips.Load() - before; got != 1 {
		t.Errorf("it was tried %d times", got)
	}
	wantGet(t, db, "a", "-")
}

// TestLargeChecks: checks are bounded as operations are.
func TestLargeChecks(t *testing.T) {
	t.Parallel()
	db := open(t)
	value := make([]byte, maxValue)
	var checks []kv.Check
	for i := range maxBytes/maxValue + 1 { // all of the same memory
		checks = append(checks, kv.Check{Key: fmt.Appendf(nil, "c%d", i), Value: value})
	}
	if err := db.Commit(ctx, &kv.Commit{Checks: checks}); !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, kv.ErrTooLarge)
	}
	if err := db.Commit(ctx, &kv.Commit{Checks: checks[:1]}); !errors.Is(err, kv.ErrConflict) {
		t.Errorf("got %v, want %v", err, kv.ErrConflict)
	}
}

// TestCleared compares what is left of operations with doing them one after the other.
func TestCleared(t *testing.T) {
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 2))
	key := func() []byte { return []byte{'a' + byte(rnd.IntN(12))} }
	for range 3000 {
		var c kv.Commit
		want := map[string]string{}
		gone := map[string]bool{}
		for i := range rnd.IntN(12) {
			k := key()
			switch rnd.IntN(3) {
			case 0:
				c.Ops = append(c.Ops, kv.Set(k, []byte{byte(i)}))
				want[string(k)], gone[string(k)] = string([]byte{byte(i)}), false
			case 1:
				c.Ops = append(c.Ops, kv.Clear(k))
				delete(want, string(k))
				gone[string(k)] = true
			case 2:
				if rnd.IntN(4) == 0 {
					k = nil
				}
				end := key()
				c.Ops = append(c.Ops, kv.ClearRange(k, end))
				for b := byte('a'); b < 'a'+12; b++ {
					if string(b) >= string(k) && string(b) < string(end) {
						delete(want, string(b))
						gone[string(b)] = true
					}
				}
			}
		}
		var p plan
		if err := p.make(&c); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, w := range p.sets {
			got[string(w.key)] = string(w.value)
		}
		for b := byte('a'); b < 'a'+12; b++ {
			k := string(b)
			removed := false
			for _, c := range p.clears {
				removed = removed || string(c) == k
			}
			for i := range p.ranges {
				_, set := got[k]
				removed = removed || !set && !outside([]byte(k), &p.ranges[i])
				if i > 0 && bytes.Compare(p.ranges[i].Start, p.ranges[i-1].End) <= 0 {
					t.Fatalf("ranges %v", p.ranges)
				}
			}
			if g, w := got[k], want[k]; g != w || removed != gone[k] {
				t.Fatalf("%v: %s is %q, removed %v; want %q, %v", c.Ops, k, g, removed, w, gone[k])
			}
		}
	}
}
