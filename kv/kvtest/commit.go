package kvtest

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

// testOpOrder: inside one commit a later operation wins over an earlier one.
func testOpOrder(t *testing.T, open Opener) {
	eng := start(t, open)
	for _, tt := range []struct {
		name string
		ops  []kv.Op
		want string
	}{
		{"nothing", nil, "a=A b=B c=C"},
		{"set twice", []kv.Op{set("a", "1"), set("a", "2")}, "a=2 b=B c=C"},
		{"set, clear", []kv.Op{set("n", "1"), del("n"), set("a", "1"), del("a")}, "b=B c=C"},
		{"clear, set", []kv.Op{del("a"), set("a", "1"), del("n"), set("n", "1")}, "a=1 b=B c=C n=1"},
		{"clear what is missing", []kv.Op{del("n"), delRange("m", "z")}, "a=A b=B c=C"},
		{"clear range", []kv.Op{delRange("a", "c")}, "c=C"},
		{"clear range between keys", []kv.Op{delRange("aa", "bb")}, "a=A c=C"},
		{"set, clear range", []kv.Op{set("aa", "1"), set("b", "1"), delRange("a", "c")}, "c=C"},
		{"clear range, set", []kv.Op{delRange("a", "c"), set("aa", "1"), set("b", "1")}, "aa=1 b=1 c=C"},
		{"set, clear range, set", []kv.Op{set("b", "1"), delRange("a", "c"), set("b", "2")}, "b=2 c=C"},
		{"clear range, set, clear range", []kv.Op{delRange("a", "c"), set("b", "1"), delRange("b", "d")}, ""},
		{"two ranges and a set between", []kv.Op{delRange("a", "b"), set("bb", "1"), delRange("c", "d")}, "b=B bb=1"},
		{"overlapping ranges", []kv.Op{delRange("a", "bb"), set("b", "1"), delRange("b\x00", "d")}, "b=1"},
		{"inverted and empty ranges", []kv.Op{delRange("c", "a"), delRange("b", "b")}, "a=A b=B c=C"},
		{"inverted range after a set", []kv.Op{set("b", "1"), delRange("c", "a")}, "a=A b=1 c=C"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			commit(t, eng, delRange("a", "z"))
			fill(t, eng, "a", "b", "c")
			commit(t, eng, tt.ops...)
			wantScan(t, eng, kv.Range{}, tt.want)
		})
	}
}

// testClearMany: ranges from a few keys to many, which an engine may well clear in
// different ways, of keys that are stored, that the commit itself set, or both.
func testClearMany(t *testing.T, open Opener) {
	for _, n := range []int{1, 127, 128, 129, 500} {
		eng := start(t, open)
		stored, own := make([]kv.Op, 0, n), make([]kv.Op, 0, n)
		for i := range n {
			stored = append(stored, set(fmt.Sprintf("b/%04d", i), "stored"))
			own = append(own, set(fmt.Sprintf("b/%04d+", i), "own"))
		}
		all := func(more ...kv.Op) []kv.Op { return append(append([]kv.Op{}, own...), more...) }
		around := []kv.Op{set("a", "1"), set("b", "1"), set("b0", "1"), set("c", "1")}
		for _, ops := range [][]kv.Op{
			{delRange("b/", "b0")},
			all(delRange("b/", "b0")),
			all(delRange("b/", "b/0001"), delRange("b/0001", "b0")),
			all(delRange("b/0003", "b0"), delRange("b/", "b0"), delRange("b/", "b/0002")),
		} {
			commit(t, eng, stored...)
			commit(t, eng, around...)
			commit(t, eng, append(ops, set("b/last", "1"))...)
			wantScan(t, eng, kv.Range{}, "a=1 b=1 b/last=1 b0=1 c=1")
		}
	}
}

// testInvalidOps: what makes no sense is refused whole.
func testInvalidOps(t *testing.T, open Opener) {
	eng := start(t, open)
	for name, op := range map[string]kv.Op{
		"clear range without an end":    kv.ClearRange([]byte("a"), nil),
		"clear range with an empty end": kv.ClearRange(nil, []byte{}),
		"set of the empty key":          kv.Set(nil, []byte("v")),
		"clear of the empty key":        kv.Clear([]byte{}),
		"unknown kind":                  {Kind: kv.OpClearRange + 1, Key: []byte("a")},
	} {
		called := false
		err := eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("x", "1"), op}, OnApply: func() { called = true }})
		wantRefused(t, name, err, kv.ErrInvalid)
		if called {
			t.Errorf("%s: OnApply was called", name)
		}
	}
	wantScan(t, eng, kv.Range{}, "")
}

// testChecks: a commit applies when all its checks hold, and not at all when one
// doesn't.
func testChecks(t *testing.T, open Opener) {
	eng := start(t, open)
	for _, tt := range []struct {
		name   string
		checks []kv.Check
		holds  bool
	}{
		{"value", []kv.Check{is("a", "A")}, true},
		{"other value", []kv.Check{is("a", "B")}, false},
		{"prefix of the value", []kv.Check{is("a", "")}, false},
		{"longer than the value", []kv.Check{is("a", "AA")}, false},
		{"value of a missing key", []kv.Check{is("n", "N")}, false},
		{"absent", []kv.Check{absent("n")}, true},
		{"absent, but present", []kv.Check{absent("a")}, false},
		{"absent with a value", []kv.Check{{Key: []byte("n"), Value: []byte("x"), Absent: true}}, true},
		{"all hold", []kv.Check{is("a", "A"), absent("n"), is("b", "B")}, true},
		{"the last does not", []kv.Check{is("a", "A"), absent("n"), is("b", "C")}, false},
		{"the first does not", []kv.Check{absent("a"), is("b", "B")}, false},
		{"of keys that the commit changes", []kv.Check{is("b", "B"), absent("x")}, true},
		{"of values that the commit makes", []kv.Check{is("b", "new")}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			commit(t, eng, delRange("a", "z"))
			fill(t, eng, "a", "b")
			err := eng.Commit(ctx, &kv.Commit{
				Checks: tt.checks, Ops: []kv.Op{set("x", "1"), set("b", "new"), del("a")}, Durability: kv.Applied,
			})
			if tt.holds {
				if err != nil {
					t.Fatal(err)
				}
				wantScan(t, eng, kv.Range{}, "b=new x=1")
				return
			}
			wantRefused(t, "Commit", err, kv.ErrConflict)
			wantScan(t, eng, kv.Range{}, "a=A b=B")
		})
	}
	// A check sees what the commit before left, also of a cleared range.
	commit(t, eng, delRange("a", "z"))
	fill(t, eng, "a", "b", "c")
	commit(t, eng, delRange("a", "c"))
	if err := eng.Commit(ctx, &kv.Commit{Checks: []kv.Check{absent("a"), absent("b"), is("c", "C")}}); err != nil {
		t.Errorf("checks after a cleared range: %v", err)
	}
}

// testOnApply: once, when the changes are visible, before Commit returns, with
// no lock held, and never for a commit that did not apply.
func testOnApply(t *testing.T, open Opener) {
	eng := start(t, open)
	for _, d := range []kv.Durability{kv.Durable, kv.Applied} {
		calls := 0
		err := eng.Commit(ctx, &kv.Commit{
			Ops: []kv.Op{set("a", "1")}, Durability: d,
			OnApply: func() {
				calls++
				wantGet(t, eng, "a", "1")
				wantScan(t, eng, kv.Range{}, "a=1")
				// A commit here is ordered after the one it is called for.
				commit(t, eng, set("a", "2"), set("b", "1"))
			},
		})
		if err != nil || calls != 1 {
			t.Errorf("durability %d: %d calls of OnApply, %v", d, calls, err)
		}
		wantScan(t, eng, kv.Range{}, "a=2 b=1")
		commit(t, eng, del("a"), del("b"))
	}
	never := func() { t.Error("OnApply was called for a commit that did not apply") }
	err := eng.Commit(ctx, &kv.Commit{Checks: []kv.Check{is("a", "x")}, OnApply: never})
	wantRefused(t, "Commit with a failing check", err, kv.ErrConflict)
	calls := 0
	if err := eng.Commit(ctx, &kv.Commit{Checks: []kv.Check{absent("a")}, OnApply: func() { calls++ }}); err != nil || calls != 1 {
		t.Errorf("a commit without operations: %d calls of OnApply, %v", calls, err)
	}
}

// testOutcome: the last 1,024 commits with an id are remembered.
func testOutcome(t *testing.T, open Opener) {
	eng := start(t, open)
	id := func(n uint64) (id kv.CommitID) {
		binary.BigEndian.PutUint64(id[:], n)
		return id
	}
	want := func(id kv.CommitID, want kv.Outcome) {
		t.Helper()
		if got, err := eng.Outcome(ctx, id); err != nil || got != want {
			t.Errorf("Outcome(%x): got %v, %v, want %v", id, got, err, want)
		}
	}
	want(id(1), kv.OutcomeUnknown)
	commit(t, eng, set("a", "1"))
	want(kv.CommitID{}, kv.OutcomeUnknown)
	applied := kv.OutcomeApplied
	for n := uint64(1); n <= 1024; n++ {
		c := &kv.Commit{ID: id(n), Durability: kv.Applied, Ops: []kv.Op{set("a", fmt.Sprint(n))}}
		if n%5 == 0 {
			c.Checks = []kv.Check{absent("a")}
			wantRefused(t, "Commit with a failing check", eng.Commit(ctx, c), kv.ErrConflict)
		} else {
			c.OnApply = func() { want(c.ID, applied) }
			if err := eng.Commit(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
		commit(t, eng, set("b", "without an id"))
	}
	for n := uint64(1); n <= 1024; n++ {
		if n%5 == 0 {
			want(id(n), kv.OutcomeNotApplied)
		} else {
			want(id(n), kv.OutcomeApplied)
		}
	}
	want(id(1025), kv.OutcomeUnknown)
}

// testIncarnation: a commit for the incarnation that there is applies, one for another
// doesn't.
func testIncarnation(t *testing.T, open Opener) {
	eng := start(t, open)
	in := eng.Incarnation()
	if err := eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("a", "1")}, In: in}); err != nil {
		t.Fatal(err)
	}
	c := kv.Commit{ID: kv.CommitID{1}, Ops: []kv.Op{set("a", "2")}, In: in + 1, OnApply: func() { t.Error("OnApply was called") }}
	wantRefused(t, "in another incarnation", eng.Commit(ctx, &c), kv.ErrIncarnation)
	if o, err := eng.Outcome(ctx, c.ID); err != nil || o != kv.OutcomeNotApplied {
		t.Errorf("its outcome is %v, %v", o, err)
	}
	wantScan(t, eng, kv.Range{}, "a=1")
}

// testLimits: a commit over the limits is refused whole, one at them is not.
func testLimits(t *testing.T, open Opener) {
	eng := start(t, open)
	lim := eng.Limits()
	refuse := func(what string, ops ...kv.Op) {
		t.Helper()
		never := func() { t.Errorf("%s: OnApply was called", what) }
		err := eng.Commit(ctx, &kv.Commit{Ops: append([]kv.Op{set("a", "1")}, ops...), OnApply: never})
		wantRefused(t, what, err, kv.ErrTooLarge)
	}
	if lim.Key > 0 {
		key := make([]byte, lim.Key+1)
		refuse("a key over the limit", kv.Set(key, nil))
		commit(t, eng, kv.Set(key[:lim.Key], []byte("at the limit")))
		wantGet(t, eng, string(key[:lim.Key]), "at the limit")
		commit(t, eng, kv.Clear(key[:lim.Key]))
	}
	// The slices below are large but never touched, so they cost no memory.
	if lim.Value > 0 {
		refuse("a value over the limit", kv.Set([]byte("v"), make([]byte, lim.Value+1)))
	}
	if lim.Bytes > 0 {
		n := 64 << 20
		if lim.Value > 0 {
			n = min(n, lim.Value)
		}
		value := make([]byte, n)
		var ops []kv.Op
		for total := 0; total <= lim.Bytes; total += n {
			ops = append(ops, kv.Set([]byte("v"), value))
		}
		refuse("a commit over the limit in bytes", ops...)
	}
	if lim.Ops > 0 && lim.Ops <= 1<<20 {
		refuse("a commit over the limit in operations", make([]kv.Op, lim.Ops)...)
	}
	wantScan(t, eng, kv.Range{}, "")
}
