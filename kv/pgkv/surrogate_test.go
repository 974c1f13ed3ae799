//go:build unix

package pgkv

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

// The order of surrogates is that of keys, except among long keys with one prefix;
// bounds let nothing of the range out, and of what is outside only such a group in.
func FuzzSurrogate(f *testing.F) {
	f.Add([]byte("a"), []byte("b"), uint16(0), uint16(0))
	f.Add([]byte("a"), []byte("b"), uint16(prefixLen), uint16(prefixLen))
	f.Add([]byte("a"), []byte{}, uint16(prefixLen-1), uint16(prefixLen))
	f.Add([]byte{0xff}, []byte{0xff, 0xff}, uint16(prefixLen), uint16(prefixLen+7))
	f.Fuzz(func(t *testing.T, a, b []byte, padA, padB uint16) {
		pad := func(k []byte, n uint16) []byte {
			return append(bytes.Repeat([]byte{0xff}, int(n)%(2*prefixLen)), k...)
		}
		a, b = pad(a, padA), pad(b, padB)
		sa, sb := appendSurrogate(nil, a), appendSurrogate(nil, b)
		if got := appendKey(nil, sa, restOf(a)); !bytes.Equal(got, a) {
			t.Fatalf("a key of %d bytes came back as %d bytes", len(a), len(got))
		}
		group := len(a) > prefixLen && len(b) > prefixLen && bytes.Equal(a[:prefixLen], b[:prefixLen])
		if got, want := bytes.Compare(sa, sb), bytes.Compare(a, b); got != want && !group || got == 0 != (want == 0) {
			t.Errorf("order of surrogates %d, of keys %d, in one group: %v", got, want, group)
		}
		if bytes.Compare(a, b) >= 0 && bytes.Compare(sa, appendLow(nil, b)) < 0 {
			t.Error("a key is below the bound of a range that it is in")
		}
		if bytes.Compare(a, b) < 0 && bytes.Compare(sa, appendHigh(nil, b)) >= 0 {
			t.Error("a key is above the bound of a range that it is in")
		}
		if bytes.Compare(a, b) < 0 && bytes.Compare(sa, appendLow(nil, b)) >= 0 && !group {
			t.Error("a key that is below a range is within its bounds")
		}
		if bytes.Compare(a, b) >= 0 && bytes.Compare(sa, appendHigh(nil, b)) < 0 && !group {
			t.Error("a key that is above a range is within its bounds")
		}
		if bytes.Compare(sa, appendHigh(nil, nil)) >= 0 {
			t.Error("a surrogate is above all")
		}
	})
}

// Keys of all lengths, many with the same long prefix, are read and cleared in order.
func TestLongKeys(t *testing.T) {
	db := open(t)
	rnd := rand.New(rand.NewPCG(7, 7))
	model := map[string]string{}
	key := func() string {
		fill := [...]string{"\x00", "m", "\xff"}[rnd.IntN(3)]
		n := [...]int{0, prefixLen - 1, prefixLen, prefixLen, prefixLen, prefixLen + 32, 2 * prefixLen}[rnd.IntN(7)]
		tail := make([]byte, rnd.IntN(3))
		for i := range tail {
			tail[i] = "\x00m\xff"[rnd.IntN(3)]
		}
		return "k" + strings.Repeat(fill, n) + string(tail)
	}
	for range 30 {
		var ops []kv.Op
		for range 12 {
			k := key()
			switch rnd.IntN(8) {
			case 0:
				ops = append(ops, kv.Clear([]byte(k)))
				delete(model, k)
			case 1:
				end := key()
				ops = append(ops, kv.ClearRange([]byte(k), []byte(end)))
				maps.DeleteFunc(model, func(have, _ string) bool { return have >= k && have < end })
			default:
				v := fmt.Sprint(rnd.Uint64())
				ops = append(ops, kv.Set([]byte(k), []byte(v)))
				model[k] = v
			}
		}
		if err := db.Commit(t.Context(), &kv.Commit{Ops: ops, Durability: kv.Applied}); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			r := kv.Range{Start: []byte(key()), End: []byte(key()), Reverse: rnd.IntN(2) == 0, Limit: rnd.IntN(4) * rnd.IntN(3)}
			wantRange(t, db, model, r)
		}
		wantRange(t, db, model, kv.Range{})
		wantRange(t, db, model, kv.Range{Reverse: true})
	}
	for k, v := range model {
		if got, err := db.Get(t.Context(), []byte(k), nil); err != nil || string(got) != v {
			t.Errorf("Get of a key of %d bytes: got %q, %v, want %q", len(k), got, err, v)
		}
	}
}

// A group of more long keys than a page has rows is read in order too, from its
// middle and in both directions.
func TestLongGroup(t *testing.T) {
	t.Parallel()
	db := open(t)
	model := map[string]string{}
	prefix := strings.Repeat("p", prefixLen)
	var ops []kv.Op
	set := func(k string) {
		ops = append(ops, kv.Set([]byte(k), []byte("v")))
		model[k] = "v"
	}
	for i := range 2*pageRows + 10 {
		set(prefix + fmt.Sprintf("%05d", i))
	}
	for _, k := range []string{"a", prefix[:9], prefix, prefix[1:], prefix[1:] + "q", "z"} {
		set(k)
	}
	if err := db.Commit(t.Context(), &kv.Commit{Ops: ops, Durability: kv.Applied}); err != nil {
		t.Fatal(err)
	}
	for i, start := range []string{"", prefix, prefix + "00100", "q"} {
		for j, end := range []string{prefix + "00101", prefix + "02000", "\xff"} {
			for _, limit := range []int{0, 1, 300} {
				for _, reverse := range []bool{false, true} {
					if !testkit.Long() && limit == 0 && reverse == ((i+j)%2 == 0) {
						continue // a whole scan goes one way, the next one the other
					}
					wantRange(t, db, model, kv.Range{Start: []byte(start), End: []byte(end), Limit: limit, Reverse: reverse})
				}
			}
		}
	}
	if err := db.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.ClearRange([]byte(prefix+"00003"), []byte(prefix+"02056"))}}); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(model, func(k, _ string) bool { return k >= prefix+"00003" && k < prefix+"02056" })
	wantRange(t, db, model, kv.Range{})
}

// wantRange compares a scan with the model.
func wantRange(t *testing.T, r kv.Reader, model map[string]string, rng kv.Range) {
	t.Helper()
	want := slices.DeleteFunc(slices.Sorted(maps.Keys(model)), func(k string) bool {
		return k < string(rng.Start) || rng.End != nil && k >= string(rng.End)
	})
	if rng.Reverse {
		slices.Reverse(want)
	}
	if rng.Limit > 0 && len(want) > rng.Limit {
		want = want[:rng.Limit]
	}
	n := 0
	for e, err := range r.Scan(context.Background(), rng) {
		if err != nil {
			t.Fatal(err)
		}
		if n >= len(want) || string(e.Key) != want[n] || string(e.Value) != model[want[n]] {
			t.Fatalf("entry %d of the scan from %s to %s, limit %d, reverse %v is %s", n, short(rng.Start), short(rng.End), rng.Limit, rng.Reverse, short(e.Key))
		}
		n++
	}
	if n != len(want) {
		t.Fatalf("scan from %s to %s, limit %d, reverse %v: got %d entries, want %d", short(rng.Start), short(rng.End), rng.Limit, rng.Reverse, n, len(want))
	}
}

func short(k []byte) string {
	if len(k) <= 20 {
		return fmt.Sprintf("%q", k)
	}
	return fmt.Sprintf("%q…%q (%d bytes)", k[:3], k[len(k)-8:], len(k))
}
