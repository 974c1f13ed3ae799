package readahead

import (
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// The bytes of hints. They will not change.
func TestHintsGolden(t *testing.T) {
	for _, tt := range []struct {
		runs []run
		hex  string
	}{
		{nil, "0100"},
		{[]run{{16, 17}}, "01001000"},
		{[]run{{0, 3}, {400, 401}, {100_000, 100_250}}, "01000002" + "8d0300" + "8f8a06" + "f901"},
		{[]run{{1<<32 - 1, 1 << 32}}, "0100" + "ffffffff0f" + "00"},
	} {
		b := appendHints(nil, tt.runs)
		if got := hex.EncodeToString(b); got != tt.hex {
			t.Errorf("%v: got %s, want %s", tt.runs, got, tt.hex)
		}
		got, err := parseHints(b)
		if err != nil || !reflect.DeepEqual(got, tt.runs) {
			t.Errorf("%s: got %v, %v, want %v", tt.hex, got, err, tt.runs)
		}
	}
}

func TestHintsCorrupt(t *testing.T) {
	for _, tt := range []string{
		"", "01", "010080", "010001", "01000180", "01000102" + "0001", // runs that touch
		"0100" + "8080808010" + "00", "0100" + "ffffffff0f" + "01", "0100" + "00" + "8002",
		"0100" + "00ff01" + "0100", "0100" + "ffffffffffffffffffff01" + "00",
	} {
		b, err := hex.DecodeString(tt)
		if err != nil {
			t.Fatal(err)
		}
		if runs, err := parseHints(b); err == nil {
			t.Errorf("%s: %v", tt, runs)
		}
	}
	if runs, err := parseHints([]byte{2, 0, 1, 2, 3}); err != nil || runs != nil {
		t.Errorf("a later version: %v, %v", runs, err)
	}
}

// TestHintsBound leaves out what doesn't fit.
func TestHintsBound(t *testing.T) {
	var runs []run
	for i := range int64(1000) {
		runs = append(runs, run{i << 21, i<<21 + 1})
	}
	b := appendHints([]byte("before"), runs)
	got, err := parseHints(b[len("before"):])
	if err == nil && len(got) > maxHinted {
		t.Errorf("%d runs", len(got))
	}
	if n := len(b) - len("before"); n > actorstore.MaxHints || n < actorstore.MaxHints-8 {
		t.Errorf("%d bytes", n)
	}
}

func FuzzHints(f *testing.F) {
	f.Add([]byte{1, 0})
	f.Add(appendHints(nil, []run{{0, 3}, {400, 401}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		runs, err := parseHints(b)
		if err != nil || len(runs) == 0 {
			return
		}
		end, total := int64(-1), int64(0)
		for _, r := range runs {
			if r.from <= end || r.to <= r.from || r.to > chunked.MaxChunks {
				t.Fatal(runs)
			}
			total += r.to - r.from
			end = r.to
		}
		if total > maxHinted {
			t.Fatal(runs)
		}
		again, err := parseHints(appendHints(nil, runs))
		if err != nil || !reflect.DeepEqual(again, runs) {
			t.Fatalf("%v, %v, then %v", runs, err, again)
		}
	})
}

// TestHintsPages collects what is read first and what is an inner page.
func TestHintsPages(t *testing.T) {
	h, _ := newHints(nil)
	leaf, inner := make([]byte, 8192), make([]byte, 8192)
	leaf[0], inner[0] = 13, 5
	page := func(number int64, b []byte, written bool) { h.page(8192, true, b, number*8192, written) }
	page(1, leaf, false)                           // among the first chunks
	page(20, leaf, false)                          // 40, 41
	page(21, leaf, true)                           // written: not read
	page(30, inner, true)                          // 60, 61
	h.page(8192, true, inner[:100], 31*8192, true) // no page
	h.page(8192, true, inner, 31*8192+512, true)
	for i := range int64(firstReads) {
		page(100+i, leaf, false)
	}
	page(300, inner, false) // 600, 601
	got := asked(h.final(10_000, nil))
	want := []run{{40, 42}, {60, 62}, {200, 200 + 2*(firstReads-1)}, {600, 602}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	stored := h.final(10_000, nil)
	if b := h.final(10_000, stored); b != nil {
		t.Errorf("the same hints are worth a commit: %v", asked(b))
	}
	if got := asked(h.final(61, nil)); len(got) == 0 || got[len(got)-1].to > 61 {
		t.Errorf("beyond the end: %v", got)
	}

	// The next time, what is an inner page still is kept.
	h, runs := newHints(stored)
	if !reflect.DeepEqual(runs, want) {
		t.Errorf("got %v, want %v", runs, want)
	}
	for _, r := range runs {
		for c := r.from; c < r.to; c++ {
			b := leaf
			if c == 60 || c == 600 {
				b = inner
			}
			h.fetched(c, b[:chunked.Size])
		}
	}
	h.fetched(5000, inner[:chunked.Size]) // it wasn't asked for
	page(45, leaf, false)
	want = []run{{60, 61}, {90, 92}, {600, 601}}
	if got := asked(h.final(10_000, nil)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if h.ripe(10_000) != nil {
		t.Error("ripe after one page")
	}
	for i := range int64(hintsRipe) {
		page(700+i, inner, true)
	}
	if b := asked(h.ripe(10_000)); len(b) < 3 || h.ripe(10_000) != nil {
		t.Errorf("ripe: %v", b)
	}
}
