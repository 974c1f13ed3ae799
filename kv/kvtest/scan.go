package kvtest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// testScan: order, direction and limit.
func testScan(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	suite.WantScan(t, eng, kv.Range{}, "")
	suite.WantScan(t, eng, kv.Range{Reverse: true}, "")
	// Byte order, not that of any language or number.
	suite.Fill(t, eng, "b", "a", "aa", "B", "10", "9", "\xff", "\x00", "\xff\x00", "z")
	suite.WantScan(t, eng, kv.Range{}, "\x00=\x00 10=10 9=9 B=B a=A aa=AA b=B z=Z \xff=\xef\xbf\xbd \xff\x00=\xef\xbf\xbd\x00")
	suite.Commit(t, eng, kv.ClearRange(nil, []byte("\xff\xff")))
	suite.Fill(t, eng, "a", "b", "c", "d", "e")
	for _, tt := range []struct {
		r    kv.Range
		want string
	}{
		{kv.Range{}, "a=A b=B c=C d=D e=E"},
		{kv.Range{Reverse: true}, "e=E d=D c=C b=B a=A"},
		{kv.Range{Limit: 2}, "a=A b=B"},
		{kv.Range{Limit: 2, Reverse: true}, "e=E d=D"},
		{kv.Range{Limit: 5}, "a=A b=B c=C d=D e=E"},
		{kv.Range{Limit: 6, Reverse: true}, "e=E d=D c=C b=B a=A"},
		{kv.Range{Start: []byte("b"), Limit: 1}, "b=B"},
		{kv.Range{End: []byte("d"), Limit: 1, Reverse: true}, "c=C"},
	} {
		suite.WantScan(t, eng, tt.r, tt.want)
	}
}

// testScanBounds: half-open ranges, between keys and on them, nil, empty and
// inverted, in both directions.
func testScanBounds(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	keys := []string{"a", "b", "b\x00", "bb", "c"}
	suite.Fill(t, eng, keys...)
	bounds := []string{"", "\x00", "a", "a\x00", "b", "b\x00", "b\x00\x00", "ba", "bb", "c", "c\x00", "d", "\xff"}
	m := suite.Model{}
	for _, k := range keys {
		e, err := eng.Get(ctx, []byte(k), nil)
		if err != nil {
			t.Fatal(err)
		}
		m[k] = string(e)
	}
	check := func(r kv.Range) {
		for _, limit := range []int{0, 1, 2} {
			for _, reverse := range []bool{false, true} {
				r.Limit, r.Reverse = limit, reverse
				suite.WantScan(t, eng, r, m.Scan(r))
			}
		}
	}
	for _, start := range bounds {
		check(kv.Range{Start: []byte(start)})
		check(kv.Range{End: []byte(start)}) // "" is an empty, non-nil end: nothing
		for _, end := range bounds {
			check(suite.Between(start, end))
		}
	}
}

// testScanState: the state is fixed when the iteration starts, not when Scan is
// called and not later.
func testScanState(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	seq := eng.Scan(ctx, kv.Range{})
	suite.Fill(t, eng, "a", "b", "c")
	got := ""
	for e, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		got += string(e.Key)
		// Changes ahead of, at and behind the place of the scan.
		suite.Commit(t, eng, suite.Set("a", "new"), suite.Del("b"), suite.Set("bb", "new"), suite.Set("d", "new"), suite.DelRange("c", "cc"))
	}
	if got != "abc" {
		t.Errorf("a scan with commits in its loop saw %q, want %q", got, "abc")
	}
	suite.WantScan(t, eng, kv.Range{}, "a=new bb=new d=new")
	got = ""
	for e, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		got += string(e.Key) + " "
	}
	if want := "a bb d "; got != want {
		t.Errorf("the same sequence iterated again saw %q, want %q", got, want)
	}
}

// testScanLoop: leaving a loop early and by a panic, and loops inside loops.
func testScanLoop(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	var keys []string
	for i := range 300 {
		keys = append(keys, fmt.Sprintf("k%03d", i))
	}
	suite.Fill(t, eng, keys...)
	for _, n := range []int{1, 2, 63, 64, 65, 299} {
		i := 0
		for _, err := range eng.Scan(ctx, kv.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			if i++; i == n {
				break
			}
		}
		if i != n {
			t.Errorf("left a loop after %d entries instead of %d", i, n)
		}
	}
	pairs := 0
	for a, err := range eng.Scan(ctx, kv.Range{Limit: 10}) {
		if err != nil {
			t.Fatal(err)
		}
		outer := string(a.Key)
		for b, err := range eng.Scan(ctx, kv.Range{Limit: 10, Reverse: true}) {
			if err != nil {
				t.Fatal(err)
			}
			suite.WantGet(t, eng, string(b.Key), "K"+string(b.Key[1:]))
			pairs++
		}
		if string(a.Key) != outer {
			t.Fatalf("a scan inside a scan changed the outer key %q to %q", outer, a.Key)
		}
	}
	if pairs != 100 {
		t.Errorf("nested scans: got %d pairs, want 100", pairs)
	}

	thrown := errors.New("thrown by the loop body")
	func() {
		defer func() {
			if r := recover(); r != thrown {
				t.Errorf("a panic in a loop body came out as %v", r)
			}
		}()
		for range eng.Scan(ctx, kv.Range{}) {
			panic(thrown)
		}
	}()
	suite.WantGet(t, eng, "k000", "K000")
}
