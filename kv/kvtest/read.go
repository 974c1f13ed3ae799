package kvtest

import (
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// testGet: present and missing keys, appending, and what happens to dst.
func testGet(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	suite.WantGet(t, eng, "a", "-")
	suite.Fill(t, eng, "a", "b", "ba", "c")
	for _, k := range []string{"a", "b", "ba", "c"} {
		suite.WantGet(t, eng, k, map[string]string{"a": "A", "b": "B", "ba": "BA", "c": "C"}[k])
	}
	for _, k := range []string{"", "A", "aa", "bb", "d", "a\x00"} {
		suite.WantGet(t, eng, k, "-")
	}

	room := append(make([]byte, 0, 64), "head:"...)
	v, err := eng.Get(ctx, []byte("ba"), room)
	if err != nil || string(v) != "head:BA" {
		t.Errorf("Get into a buffer: got %q, %v, want %q", v, err, "head:BA")
	} else if &v[0] != &room[0] {
		t.Error("Get did not use the room of dst")
	}
	tight := []byte("head:")[:5:5]
	v, err = eng.Get(ctx, []byte("ba"), tight)
	if err != nil || string(v) != "head:BA" || string(tight) != "head:" {
		t.Errorf("Get into a full buffer: got %q, %v, want %q", v, err, "head:BA")
	}
	v, err = eng.Get(ctx, []byte("zz"), room)
	suite.WantErr(t, "Get of a missing key", err, kv.ErrNotFound)
	if string(v) != "head:" || &v[0] != &room[0] {
		t.Errorf("Get of a missing key returned %q instead of dst", v)
	}
}

// testEmpty: the empty value is not absence; the empty key never exists.
func testEmpty(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	suite.Commit(t, eng, suite.Set("\x00", ""), kv.Set([]byte("e"), nil), suite.Set("f", ""))
	suite.WantGet(t, eng, "", "-")
	suite.WantGet(t, eng, "\x00", "")
	suite.WantGet(t, eng, "e", "")
	suite.WantGet(t, eng, "f", "")
	suite.WantScan(t, eng, kv.Range{}, "\x00= e= f=")
	suite.WantScan(t, eng, kv.Range{Reverse: true}, "f= e= \x00=")
	suite.WantScan(t, eng, kv.Range{Start: []byte{}, Limit: 1}, "\x00=")
	suite.WantScan(t, eng, kv.Range{Start: []byte("\x00\x00"), Limit: 1}, "e=")

	for _, c := range []struct {
		check kv.Check
		holds bool
	}{
		{kv.Check{Key: []byte("e")}, true},
		{kv.Check{Key: []byte("e"), Value: []byte{}}, true},
		{kv.Check{Key: []byte("e"), Absent: true}, false},
		{kv.Check{Key: nil}, false},
		{kv.Check{Key: []byte{}, Absent: true}, true},
		{kv.Check{Key: []byte("missing")}, false}, // missing is not empty
	} {
		err := eng.Commit(ctx, &kv.Commit{Checks: []kv.Check{c.check}, Durability: kv.Applied})
		if c.holds && err != nil {
			t.Errorf("check %+v: %v", c.check, err)
		} else if !c.holds {
			suite.WantErr(t, fmt.Sprintf("check %+v", c.check), err, kv.ErrConflict)
		}
	}
	suite.Commit(t, eng, kv.ClearRange(nil, []byte("f")))
	suite.WantScan(t, eng, kv.Range{}, "f=")
	suite.Commit(t, eng, suite.Set("\x00", "x"), kv.ClearRange([]byte{}, []byte{0}))
	suite.WantScan(t, eng, kv.Range{}, "\x00=x f=")
	suite.Commit(t, eng, kv.ClearRange(nil, []byte("\x00\x00")))
	suite.WantScan(t, eng, kv.Range{}, "f=")
}

// testBig: values from one byte to eight megabytes, and a commit of many.
func testBig(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	lim := eng.Limits()
	for i, n := range []int{1, 4096, 10_000, 128 << 10, 1 << 20, 8 << 20} {
		if lim.Value > 0 && n > lim.Value || lim.Bytes > 0 && n+1 > lim.Bytes {
			continue
		}
		v := suite.Pattern(n, uint64(i))
		suite.Commit(t, eng, kv.Set([]byte("v"), v))
		suite.WantGet(t, eng, "v", string(v))
		for e, err := range eng.Scan(ctx, kv.Range{}) {
			if err != nil || !same(e.Value, v) {
				t.Fatalf("Scan of a value of %d bytes: got %d bytes, %v", n, len(e.Value), err)
			}
		}
	}
	n := 256
	if lim.Ops > 0 {
		n = min(n, lim.Ops)
	}
	var ops []kv.Op
	for i := range n {
		ops = append(ops, kv.Set(fmt.Appendf(nil, "many/%04d", i), suite.Pattern(4096, uint64(i))))
	}
	if lim.Bytes > 0 && n*(4096+9) > lim.Bytes {
		return
	}
	suite.Commit(t, eng, ops...)
	i := 0
	for e, err := range eng.Scan(ctx, suite.Between("many/", "many0")) {
		if err != nil || !same(e.Key, ops[i].Key) || !same(e.Value, ops[i].Value) {
			t.Fatalf("entry %d of a big commit: got %q with %d bytes, %v", i, e.Key, len(e.Value), err)
		}
		i++
	}
	if i != n {
		t.Errorf("scan of a big commit: got %d entries, want %d", i, n)
	}
}

// testOwnership: what goes in is copied, what comes out is the caller's.
func testOwnership(t *testing.T, open suite.Opener) {
	eng := suite.Start(t, open)
	key, value, end := []byte("key"), []byte("value"), []byte("z")
	scribble := func(bs ...[]byte) {
		for _, b := range bs {
			for i := range b {
				b[i] = '!'
			}
		}
	}
	c := &kv.Commit{Ops: []kv.Op{kv.Set(key, value)}, Durability: kv.Applied}
	if err := eng.Commit(ctx, c); err != nil {
		t.Fatal(err)
	}
	scribble(key, value)
	c.Ops[0] = suite.Set("other", "x")
	suite.WantScan(t, eng, kv.Range{}, "key=value")

	v, err := eng.Get(ctx, []byte("key"), nil)
	if err != nil {
		t.Fatal(err)
	}
	scribble(v[:cap(v)])
	suite.WantGet(t, eng, "key", "value")

	check := []byte("key")
	if err := eng.Commit(ctx, &kv.Commit{
		Checks: []kv.Check{{Key: check, Value: []byte("value")}}, Ops: []kv.Op{kv.ClearRange([]byte("k"), end)}, Durability: kv.Applied,
	}); err != nil {
		t.Fatal(err)
	}
	scribble(check, end)
	suite.WantScan(t, eng, kv.Range{}, "")
}
