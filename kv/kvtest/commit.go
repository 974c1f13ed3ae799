package kvtest

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// testOpOrder: inside one commit a later operation wins over an earlier one.
func testOpOrder(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	for _, tt := range []struct {
		name string
		ops  []kv.Op
		want string
	}{
		{"nothing", nil, "a=A b=B c=C"},
		{"set twice", []kv.Op{suite.Set("a", "1"), suite.Set("a", "2")}, "a=2 b=B c=C"},
		{"set, clear", []kv.Op{suite.Set("n", "1"), suite.Del("n"), suite.Set("a", "1"), suite.Del("a")}, "b=B c=C"},
		{"clear, set", []kv.Op{suite.Del("a"), suite.Set("a", "1"), suite.Del("n"), suite.Set("n", "1")}, "a=1 b=B c=C n=1"},
		{"clear what is missing", []kv.Op{suite.Del("n"), suite.DelRange("m", "z")}, "a=A b=B c=C"},
		{"clear range", []kv.Op{suite.DelRange("a", "c")}, "c=C"},
		{"clear range between keys", []kv.Op{suite.DelRange("aa", "bb")}, "a=A c=C"},
		{"set, clear range", []kv.Op{suite.Set("aa", "1"), suite.Set("b", "1"), suite.DelRange("a", "c")}, "c=C"},
		{"clear range, set", []kv.Op{suite.DelRange("a", "c"), suite.Set("aa", "1"), suite.Set("b", "1")}, "aa=1 b=1 c=C"},
		{"set, clear range, set", []kv.Op{suite.Set("b", "1"), suite.DelRange("a", "c"), suite.Set("b", "2")}, "b=2 c=C"},
		{"clear range, set, clear range", []kv.Op{suite.DelRange("a", "c"), suite.Set("b", "1"), suite.DelRange("b", "d")}, ""},
		{"two ranges and a set between", []kv.Op{suite.DelRange("a", "b"), suite.Set("bb", "1"), suite.DelRange("c", "d")}, "b=B bb=1"},
		{"overlapping ranges", []kv.Op{suite.DelRange("a", "bb"), suite.Set("b", "1"), suite.DelRange("b\x00", "d")}, "b=1"},
		{"inverted and empty ranges", []kv.Op{suite.DelRange("c", "a"), suite.DelRange("b", "b")}, "a=A b=B c=C"},
		{"inverted range after a set", []kv.Op{suite.Set("b", "1"), suite.DelRange("c", "a")}, "a=A b=1 c=C"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			suite.Commit(t, eng, suite.DelRange("a", "z"))
			suite.Fill(t, eng, "a", "b", "c")
			suite.Commit(t, eng, tt.ops...)
			suite.WantScan(t, eng, kv.Range{}, tt.want)
		})
	}
}

// testClearMany: ranges from a few keys to many, which an engine may well clear in
// different ways, of keys that are stored, that the commit itself set, or both.
func testClearMany(t *testing.T, open suite.Opener) {
	for _, n := range []int{1, 127, 128, 129, 500} {
		eng := suite.Start(t, open)
		stored, own := make([]kv.Op, 0, n), make([]kv.Op, 0, n)
		for i := range n {
			stored = append(stored, suite.Set(fmt.Sprintf("b/%04d", i), "stored"))
			own = append(own, suite.Set(fmt.Sprintf("b/%04d+", i), "own"))
		}
		all := func(more ...kv.Op) []kv.Op { return append(append([]kv.Op{}, own...), more...) }
		around := []kv.Op{suite.Set("a", "1"), suite.Set("b", "1"), suite.Set("b0", "1"), suite.Set("c", "1")}
		for _, ops := range [][]kv.Op{
			{suite.DelRange("b/", "b0")},
			all(suite.DelRange("b/", "b0")),
			all(suite.DelRange("b/", "b/0001"), suite.DelRange("b/0001", "b0")),
			all(suite.DelRange("b/0003", "b0"), suite.DelRange("b/", "b0"), suite.DelRange("b/", "b/0002")),
		} {
			suite.Commit(t, eng, stored...)
			suite.Commit(t, eng, around...)
			suite.Commit(t, eng, append(ops, suite.Set("b/last", "1"))...)
			suite.WantScan(t, eng, kv.Range{}, "a=1 b=1 b/last=1 b0=1 c=1")
		}
	}
}

// testInvalidOps: what makes no sense is refused whole.
func testInvalidOps(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	for name, op := range map[string]kv.Op{
		"clear range without an end":    kv.ClearRange([]byte("a"), nil),
		"clear range with an empty end": kv.ClearRange(nil, []byte{}),
		"set of the empty key":          kv.Set(nil, []byte("v")),
		"clear of the empty key":        kv.Clear([]byte{}),
		"unknown kind":                  {Kind: kv.OpClearRange + 1, Key: []byte("a")},
	} {
		called := false
		err := eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{suite.Set("x", "1"), op}, OnApply: func() { called = true }})
		wantRefused(t, name, err, kv.ErrInvalid)
		if called {
			t.Errorf("%s: OnApply was called", name)
		}
	}
	suite.WantScan(t, eng, kv.Range{}, "")
}

// testChecks: a commit applies when all its checks hold, and not at all when one
// doesn't.
func testChecks(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	for _, tt := range []struct {
		name   string
		checks []kv.Check
		holds  bool
	}{
		{"value", []kv.Check{suite.Is("a", "A")}, true},
		{"other value", []kv.Check{suite.Is("a", "B")}, false},
		{"prefix of the value", []kv.Check{suite.Is("a", "")}, false},
		{"longer than the value", []kv.Check{suite.Is("a", "AA")}, false},
		{"value of a missing key", []kv.Check{suite.Is("n", "N")}, false},
		{"absent", []kv.Check{suite.Absent("n")}, true},
		{"absent, but present", []kv.Check{suite.Absent("a")}, false},
		{"absent with a value", []kv.Check{{Key: []byte("n"), Value: []byte("x"), Absent: true}}, true},
		{"all hold", []kv.Check{suite.Is("a", "A"), suite.Absent("n"), suite.Is("b", "B")}, true},
		{"the last does not", []kv.Check{suite.Is("a", "A"), suite.Absent("n"), suite.Is("b", "C")}, false},
		{"the first does not", []kv.Check{suite.Absent("a"), suite.Is("b", "B")}, false},
		{"of keys that the commit changes", []kv.Check{suite.Is("b", "B"), suite.Absent("x")}, true},
		{"of values that the commit makes", []kv.Check{suite.Is("b", "new")}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			suite.Commit(t, eng, suite.DelRange("a", "z"))
			suite.Fill(t, eng, "a", "b")
			err := eng.Commit(ctx, &kv.Commit{
				Checks: tt.checks, Ops: []kv.Op{suite.Set("x", "1"), suite.Set("b", "new"), suite.Del("a")}, Durability: kv.Applied,
			})
			if tt.holds {
				if err != nil {
					t.Fatal(err)
				}
				suite.WantScan(t, eng, kv.Range{}, "b=new x=1")
				return
			}
			wantRefused(t, "Commit", err, kv.ErrConflict)
			suite.WantScan(t, eng, kv.Range{}, "a=A b=B")
		})
	}
	// A check sees what the commit before left, also of a cleared range.
	suite.Commit(t, eng, suite.DelRange("a", "z"))
	suite.Fill(t, eng, "a", "b", "c")
	suite.Commit(t, eng, suite.DelRange("a", "c"))
	if err := eng.Commit(ctx, &kv.Commit{Checks: []kv.Check{suite.Absent("a"), suite.Absent("b"), suite.Is("c", "C")}}); err != nil {
		t.Errorf("checks after a cleared range: %v", err)
	}
}

// testOnApply: once, when the changes are visible, before Commit returns, with
// no lock held, and never for a commit that did not apply.
func testOnApply(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	for _, d := range []kv.Durability{kv.Durable, kv.Applied} {
		calls := 0
		err := eng.Commit(ctx, &kv.Commit{
			Ops: []kv.Op{suite.Set("a", "1")}, Durability: d,
			OnApply: func() {
				calls++
				suite.WantGet(t, eng, "a", "1")
				suite.WantScan(t, eng, kv.Range{}, "a=1")
				// A commit here is ordered after the one it is called for.
				suite.Commit(t, eng, suite.Set("a", "2"), suite.Set("b", "1"))
			},
		})
		if err != nil || calls != 1 {
			t.Errorf("durability %d: %d calls of OnApply, %v", d, calls, err)
		}
		suite.WantScan(t, eng, kv.Range{}, "a=2 b=1")
		suite.Commit(t, eng, suite.Del("a"), suite.Del("b"))
	}
	never := func() { t.Error("OnApply was called for a commit that did not apply") }
	err := eng.Commit(ctx, &kv.Commit{Checks: []kv.Check{suite.Is("a", "x")}, OnApply: never})
	wantRefused(t, "Commit with a failing check", err, kv.ErrConflict)
	calls := 0
	if err := eng.Commit(ctx, &kv.Commit{Checks: []kv.Check{suite.Absent("a")}, OnApply: func() { calls++ }}); err != nil || calls != 1 {
		t.Errorf("a commit without operations: %d calls of OnApply, %v", calls, err)
	}
}

// testOutcome: the last 1,024 commits with an id are remembered.
func testOutcome(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
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
	suite.Commit(t, eng, suite.Set("a", "1"))
	want(kv.CommitID{}, kv.OutcomeUnknown)
	applied := kv.OutcomeApplied
	for n := uint64(1); n <= 1024; n++ {
		c := &kv.Commit{ID: id(n), Durability: kv.Applied, Ops: []kv.Op{suite.Set("a", fmt.Sprint(n))}}
		if n%5 == 0 {
			c.Checks = []kv.Check{suite.Absent("a")}
			wantRefused(t, "Commit with a failing check", eng.Commit(ctx, c), kv.ErrConflict)
		} else {
			c.OnApply = func() { want(c.ID, applied) }
			if err := eng.Commit(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
		suite.Commit(t, eng, suite.Set("b", "without an id"))
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
func testIncarnation(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	in := eng.Incarnation()
	if err := eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{suite.Set("a", "1")}, In: in}); err != nil {
		t.Fatal(err)
	}
	c := kv.Commit{ID: kv.CommitID{1}, Ops: []kv.Op{suite.Set("a", "2")}, In: in + 1, OnApply: func() { t.Error("OnApply was called") }}
	wantRefused(t, "in another incarnation", eng.Commit(ctx, &c), kv.ErrIncarnation)
	if o, err := eng.Outcome(ctx, c.ID); err != nil || o != kv.OutcomeNotApplied {
		t.Errorf("its outcome is %v, %v", o, err)
	}
	suite.WantScan(t, eng, kv.Range{}, "a=1")
}

// testLimits: a commit over the limits is refused whole, one at them is not.
func testLimits(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	lim := eng.Limits()
	refuse := func(what string, ops ...kv.Op) {
		t.Helper()
		never := func() { t.Errorf("%s: OnApply was called", what) }
		err := eng.Commit(ctx, &kv.Commit{Ops: append([]kv.Op{suite.Set("a", "1")}, ops...), OnApply: never})
		wantRefused(t, what, err, kv.ErrTooLarge)
	}
	if lim.Key > 0 {
		key := make([]byte, lim.Key+1)
		refuse("a key over the limit", kv.Set(key, nil))
		suite.Commit(t, eng, kv.Set(key[:lim.Key], []byte("at the limit")))
		suite.WantGet(t, eng, string(key[:lim.Key]), "at the limit")
		suite.Commit(t, eng, kv.Clear(key[:lim.Key]))
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
	suite.WantScan(t, eng, kv.Range{}, "")
}
