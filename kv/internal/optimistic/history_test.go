package optimistic

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestHistory compares a history with an array of versions, over keys of one letter,
// and the empty key.
func TestHistory(t *testing.T) {
	const keys = 26
	key := func(i int) []byte {
		if i == 0 {
			return []byte{}
		}
		return []byte{byte('a' + i)}
	}
	rapid.Check(t, func(t *rapid.T) {
		var h history
		var model [keys]uint64
		place := rapid.IntRange(0, keys-1)
		floor, version := uint64(0), uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i, j := place.Draw(t, "from"), place.Draw(t, "to")
			start, end := key(i), key(j)
			switch rapid.IntRange(0, 9).Draw(t, "bounds") {
			case 0:
				i, start = 0, nil
			case 1:
				j, end = keys, nil
			}
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				version++
				h.write(start, end, version)
				for k := i; k < j; k++ {
					model[k] = version
				}
			case 2:
				version++
				h.writeKey(key(i), version)
				model[i] = version
			case 3:
				floor = rapid.Uint64Range(floor, version).Draw(t, "floor")
				h.size += minPrune // as if it had grown that much
				h.prune(floor)
			}
			for _, asked := range []uint64{floor, version, rapid.Uint64Range(floor, version).Draw(t, "asked")} {
				want := false
				for k := i; k < j; k++ {
					want = want || model[k] > asked
				}
				if got := h.after(start, end, asked); got != want {
					t.Fatalf("[%q, %q) after %d: got %v, want %v", start, end, asked, got, want)
				}
			}
			checkTreap(t, &h)
		}
	})
}

// checkTreap checks order, heap, the largest versions and the size.
func checkTreap(t *rapid.T, h *history) {
	n := 0
	var visit func(b *boundary) uint64
	var before []byte
	visit = func(b *boundary) uint64 {
		if b == nil {
			return 0
		}
		newest := max(b.version, visit(b.left))
		if n++; n > 1 && bytes.Compare(before, b.key) >= 0 {
			t.Fatalf("%q comes after %q", b.key, before)
		}
		before = b.key
		newest = max(newest, visit(b.right))
		if b.newest != newest {
			t.Fatalf("boundary %q says that the newest below is %d, it is %d", b.key, b.newest, newest)
		}
		for _, child := range []*boundary{b.left, b.right} {
			if child != nil && child.priority > b.priority {
				t.Fatalf("boundary %q is above one of a higher priority", b.key)
			}
		}
		return newest
	}
	visit(h.root)
	if n != h.size {
		t.Fatalf("size is %d, there are %d boundaries", h.size, n)
	}
}

// TestHistoryStaysSmall: a history is as large as what is still asked for.
func TestHistoryStaysSmall(t *testing.T) {
	var h history
	for v := uint64(1); v <= 100_000; v++ {
		h.writeKey(fmt.Appendf(nil, "%08d", v*7919%1_000_000), v)
		if v > 100 {
			h.prune(v - 100)
		}
	}
	if h.size > 4*minPrune {
		t.Errorf("%d boundaries for the last 100 writes", h.size)
	}
	h = history{}
	for v := uint64(1); v <= 10_000; v++ {
		h.write([]byte{'a' + byte(v%7)}, []byte{'h' + byte(v%11)}, v)
	}
	if h.size > 40 {
		t.Errorf("%d boundaries of ranges with 18 ends", h.size)
	}
}

// BenchmarkHistory writes a key and asks for a large range, with 100,000 keys written.
func BenchmarkHistory(b *testing.B) {
	var h history
	for v := range uint64(100_000) {
		h.writeKey(fmt.Appendf(nil, "%08d", v*7919%1_000_000), v)
	}
	key, v := make([]byte, 0, 8), uint64(100_000)
	b.ReportAllocs()
	for b.Loop() {
		v++
		key = fmt.Appendf(key[:0], "%08d", v*7919%1_000_000)
		h.writeKey(key, v)
		if h.after([]byte("1"), []byte("9"), v) {
			b.Fatal("a write from the future")
		}
	}
}
