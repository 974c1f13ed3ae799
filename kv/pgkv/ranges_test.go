//go:build unix

package pgkv

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

// Several ranges are what each of them is by itself, one after the other: small ones
// and ones over a page, in both directions, with long keys among them.
func TestScanRanges(t *testing.T) {
	t.Parallel()
	db := open(t)
	rnd := rand.New(rand.NewPCG(3, 3))
	model := map[string]string{}
	var ops []kv.Op
	set := func(k, v string) {
		model[k] = v
		ops = append(ops, kv.Set([]byte(k), []byte(v)))
	}
	for i := range 3 * pageRows {
		set(fmt.Sprintf("m%06d", i), fmt.Sprint(i))
	}
	for i := range 40 {
		set(fmt.Sprintf("a%02d", i), strings.Repeat("x", rnd.IntN(300_000)))
		set("l"+strings.Repeat("x", prefixLen)+fmt.Sprint(rnd.IntN(1000)), "long")
	}
	if err := db.Commit(ctx, &kv.Commit{Ops: ops, Durability: kv.Applied}); err != nil {
		t.Fatal(err)
	}
	snap, err := db.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { snap.Close() })
	keys := slices.Sorted(maps.Keys(model))
	for range 40 {
		var rs []kv.Range
		var want []string
		for range 1 + rnd.IntN(12) {
			i := rnd.IntN(len(keys))
			r := kv.Range{Start: []byte(keys[i]), Limit: rnd.IntN(30), Reverse: rnd.IntN(2) == 0}
			switch rnd.IntN(4) {
			case 0:
				r.Limit = [...]int{0, pageRows - 1, pageRows, pageRows + 1}[rnd.IntN(4)]
			case 1:
				r.Start = nil
			case 2:
				r.End = []byte{}
			}
			if rnd.IntN(3) > 0 {
				r.End = []byte(keys[min(len(keys)-1, i+rnd.IntN(100))])
			}
			rs = append(rs, r)
			in := slices.DeleteFunc(slices.Clone(keys), func(k string) bool {
				return k < string(r.Start) || r.End != nil && k >= string(r.End)
			})
			if r.Reverse {
				slices.Reverse(in)
			}
			if r.Limit > 0 && len(in) > r.Limit {
				in = in[:r.Limit]
			}
			want = append(want, in...)
		}
		for name, r := range map[string]kv.RangesScanner{"engine": db, "snapshot": snap.(kv.RangesScanner)} {
			n := 0
			for e, err := range r.ScanRanges(ctx, rs) {
				if err != nil {
					t.Fatal(err)
				}
				if n >= len(want) || string(e.Key) != want[n] || string(e.Value) != model[want[n]] {
					t.Fatalf("%s: entry %d is %s", name, n, short(e.Key))
				}
				n++
			}
			if n != len(want) {
				t.Fatalf("%s: got %d entries, want %d", name, n, len(want))
			}
		}
	}
}
