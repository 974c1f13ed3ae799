package kvtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// rangesOf returns an engine that can scan several ranges at once, with some entries, or
// skips the test.
func rangesOf(t *testing.T, open suite.Opener) (kv.Engine, suite.Model) {
	t.Helper()
	eng := suite.Start(t, open)
	if kv.ScanRanges(ctx, eng, nil) == nil {
		t.Skip("the engine doesn't offer this")
	}
	m := suite.Model{}
	var ops []kv.Op
	for i := range 300 {
		ops = append(ops, suite.Set(fmt.Sprintf("k%03d", i), fmt.Sprint(i)))
	}
	for i := range 12 { // more than an engine may want to send at once
		ops = append(ops, kv.Set(fmt.Appendf(nil, "big%02d", i), suite.Pattern(700_000, uint64(i))))
	}
	for i := range 2500 {
		ops = append(ops, suite.Set(fmt.Sprintf("many%04d", i), "x"))
	}
	suite.Commit(t, eng, ops...)
	m.Apply(ops)
	return eng, m
}

// testScanRanges: several ranges are what each of them is by itself, one after the
// other, all of one state.
func testScanRanges(t *testing.T, open suite.Opener) {
	eng, m := rangesOf(t, open)
	snap, err := eng.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := snap.Close(); err != nil {
			t.Error(err)
		}
	})
	if kv.ScanRanges(ctx, snap, nil) == nil {
		t.Fatal("the engine can, its snapshots can't")
	}
	old := m.Clone()
	change := []kv.Op{suite.DelRange("k010", "k020"), suite.Set("k015x", "new"), suite.Set("k100", "new")}
	suite.Commit(t, eng, change...)
	m.Apply(change)
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
	keys := slices.Sorted(maps.Keys(m))
	key := func(i int) []byte { return []byte(keys[min(max(i, 0), len(keys)-1)]) }
	lists := [][]kv.Range{
		{}, {{}}, {{Reverse: true}, {Limit: 1}},
		{suite.Between("k", "l"), {Start: []byte("x")}, {End: []byte{}}, suite.Between("k", "k"), suite.Between("l", "k"), suite.Between("a", "b")},
		{suite.Between("k003", "k009"), suite.Between("k001", "k007")}, // they may overlap, and descend
	}
	for range 15 {
		var list []kv.Range
		for range rnd.IntN(12) {
			i := rnd.IntN(len(keys))
			r := kv.Range{Start: key(i), End: key(i + rnd.IntN(60) - 5), Limit: max(0, rnd.IntN(12)-6), Reverse: rnd.IntN(2) == 0}
			if rnd.IntN(10) == 0 {
				r.Limit = 1500
				r.End = nil
			}
			list = append(list, r)
		}
		lists = append(lists, list)
	}
	for _, list := range lists {
		for _, from := range []struct {
			name   string
			reader kv.Reader
			model  suite.Model
		}{{"engine", eng, m}, {"snapshot", snap, old}} {
			var want []string
			for _, r := range list {
				want = append(want, from.model.Keys(r)...)
			}
			n := 0
			for e, err := range kv.ScanRanges(ctx, from.reader, list) {
				if err != nil {
					t.Fatal(err)
				}
				if n >= len(want) || string(e.Key) != want[n] || string(e.Value) != from.model[want[n]] {
					t.Fatalf("%s: entry %d of %s is %q", from.name, n, describeAll(list), e.Key)
				}
				n++
			}
			if n != len(want) {
				t.Fatalf("%s: %d entries of %s, want %d", from.name, n, describeAll(list), len(want))
			}
		}
	}
}

// testScanRangesEnds: the consumer may stop anywhere, a context that ends ends it, and
// so does closing; the state is that of the beginning, whatever is committed meanwhile.
func testScanRangesEnds(t *testing.T, open suite.Opener) {
	eng, m := rangesOf(t, open)
	list := []kv.Range{suite.Between("many", "n"), suite.Between("big", "c"), suite.Between("k", "l")}
	var want []string
	for _, r := range list {
		want = append(want, m.Keys(r)...)
	}
	for _, most := range []int{1, 1023, 1024, 1025, 2505, len(want) - 1} {
		n := 0
		for e, err := range kv.ScanRanges(ctx, eng, list) {
			if err != nil || string(e.Key) != want[n] {
				t.Fatalf("entry %d is %q, %v", n, e.Key, err)
			}
			if n++; n == most {
				break
			}
		}
		if n != most {
			t.Errorf("%d entries, want %d", n, most)
		}
	}
	n := 0
	for e, err := range kv.ScanRanges(ctx, eng, list) {
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 { // the other ranges and the rest of this one go away
			suite.Commit(t, eng, suite.DelRange("a", "z"))
		}
		if string(e.Key) != want[n] {
			t.Fatalf("entry %d is %q, want %q", n, e.Key, want[n])
		}
		n++
	}
	if n != len(want) {
		t.Errorf("%d entries, want %d", n, len(want))
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	last := func(c context.Context) (last error) {
		for _, err := range kv.ScanRanges(c, eng, list) {
			if last != nil {
				t.Error("it went on after an error")
			}
			last = err
		}
		return last
	}
	suite.WantErr(t, "a cancelled context", last(over), context.Canceled)
	if err := errors.Join(last(ctx), eng.Close()); err != nil {
		t.Fatal(err)
	}
	suite.WantErr(t, "a closed engine", last(ctx), kv.ErrClosed)
}

func describeAll(list []kv.Range) string {
	var all []string
	for _, r := range list {
		all = append(all, suite.Describe(r))
	}
	return strings.Join(all, ", ")
}
