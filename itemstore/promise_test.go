package itemstore_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// TestMetaOfFailed: an item whose transaction didn't land wasn't put anywhere: it can be put at another path, as it is when a
// transaction runs again and its sequence has gone on.
func TestMetaOfFailed(t *testing.T) {
	ctx := t.Context()
	type line struct {
		_    struct{} `path:"/log-:Log/line-:N"`
		Log  string
		N    uint64 `item:"sequence"`
		Meta itemstore.Meta
	}
	s, err := itemstore.Open(ctx, memory(t), "lines", schemaOf(t, 1, itemstore.TypeOf[line](nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	item, runs := &line{Log: "a"}, 0
	err = s.Update(ctx, func(tx *itemstore.Tx) error {
		if err := tx.Put(ctx, item, nil); err != nil || runs > 0 {
			return err
		}
		runs++
		return s.Put(ctx, &line{Log: "a"}, nil)
	})
	if err != nil || item.N != 2 || item.Meta.Primary != "/log-a/line-2" {
		t.Errorf("%+v, %v", item, err)
	}
	item = &line{Log: "b", N: 1}
	err = s.Update(ctx, func(tx *itemstore.Tx) error {
		return errors.Join(tx.Put(ctx, item, nil), io.ErrUnexpectedEOF)
	})
	if !errors.Is(err, io.ErrUnexpectedEOF) || item.Meta != (itemstore.Meta{}) {
		t.Errorf("%+v, %v", item, err)
	}
	item.N = 2
	if err := s.Put(ctx, item, nil); err != nil {
		t.Error(err)
	}
}

// TestFirstOfPutTwice: an item that a transaction puts twice has its paths since it got them.
func TestFirstOfPutTwice(t *testing.T) {
	ctx := t.Context()
	s := school(t)
	ada := &Student{ID: 1, GraduatingYear: 2023}
	if err := s.Put(ctx, ada, nil); err != nil {
		t.Fatal(err)
	}
	want := ada.Meta.First
	if err := s.Update(ctx, func(tx *itemstore.Tx) error { return errors.Join(tx.Put(ctx, ada, nil), tx.Put(ctx, ada, nil)) }); err != nil {
		t.Fatal(err)
	}
	for _, p := range []itemstore.Path{"/student-1", "/classof-2023/student-1"} {
		if got, err := itemstore.Get[Student](ctx, s, p); err != nil || got.Meta.First != want || got.Meta.Version.Compare(want) <= 0 {
			t.Errorf("%s: since %v, version %v, want since %v, %v", p, got.Meta.First, got.Meta.Version, want, err)
		}
	}
}

// TestListGoesOn: a list in a transaction doesn't see what is put and deleted while it runs, be it of rows or of what they lead to.
func TestListGoesOn(t *testing.T) {
	ctx := t.Context()
	type node struct {
		_    struct{} `path:"/node-:N, /copy-:In/node-:N, /ref-:In/node-:N ref"`
		N    int
		In   string
		Text string
	}
	s, err := itemstore.Open(ctx, memory(t), "nodes", schemaOf(t, 1, itemstore.TypeOf[node](nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 200_000} {
		for n := range 4 {
			if err := s.Put(ctx, &node{N: n + 1, In: "a", Text: strings.Repeat("o", size)}, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, prefix := range []itemstore.Path{"", "/copy-a", "/ref-a"} {
			err := s.Update(ctx, func(tx *itemstore.Tx) error {
				if err := tx.Put(ctx, &node{N: 4, In: "a", Text: strings.Repeat("p", size)}, nil); err != nil {
					return err
				}
				n := 0
				for item, err := range tx.List(ctx, prefix, nil) {
					if err != nil {
						return err
					}
					n++
					if got := item.Value.(*node); got.N != n || len(got.Text) != size || got.Text[0] != "ooop"[n-1] {
						t.Errorf("%s is put while the list runs, and in it as %d, %.1s", item.Path, got.N, got.Text)
					}
					if err := errors.Join(tx.Put(ctx, &node{N: 2, In: "a", Text: "new"}, nil), tx.Delete(ctx, "/node-3"), tx.Put(ctx, &node{N: 4, In: "a", Text: "new"}, nil)); err != nil {
						return err
					}
				}
				if n != 4 {
					t.Errorf("%q has %d items", prefix, n)
				}
				return io.ErrUnexpectedEOF
			})
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q: %v", prefix, err)
			}
		}
	}
}

// TestLongPathsAndPayload: a payload that fits into a row, but not with the item's paths, is stored like one that doesn't fit.
func TestLongPathsAndPayload(t *testing.T) {
	ctx := t.Context()
	type wide struct {
		_             struct{} `path:"/wide-:K, /a-:A/wide-:K, /b-:B/wide-:K"`
		K, A, B, Text string
	}
	s, err := itemstore.Open(ctx, memory(t), "wide", schemaOf(t, 1, itemstore.TypeOf[wide](nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{100, 70_000, 75_900, 80_000, 72_000, 100} {
		w := &wide{K: strings.Repeat("k", 4000), A: strings.Repeat("a", 5000), B: strings.Repeat("b", 5000), Text: strings.Repeat("t", size)}
		if err := s.Put(ctx, w, nil); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if got, err := itemstore.Get[wide](ctx, s, itemstore.At("b", w.B, "wide", w.K)); err != nil || got.Text != w.Text {
			t.Errorf("%d bytes: %v", size, err)
		}
		if problems, err := s.Check(ctx); err != nil || len(problems) > 0 {
			t.Errorf("%d bytes: %v, %v", size, problems, err)
		}
	}
}

// TestPageOfLarge: a page, and what Sync returns, is about a megabyte of items too if they don't stand in the rows that are listed.
func TestPageOfLarge(t *testing.T) {
	ctx := t.Context()
	type node struct {
		_    struct{} `path:"/node-:N, /copy-:In/node-:N, /ref-:In/node-:N ref"`
		N    int
		In   string
		Text string
	}
	s, err := itemstore.Open(ctx, memory(t), "nodes", schemaOf(t, 1, itemstore.TypeOf[node](nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{"small", "large"} {
		start, err := s.Page(ctx, itemstore.At("ref", in), nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 30 {
			if err := s.Put(ctx, &node{N: n + 1, In: in, Text: strings.Repeat("x", map[string]int{"small": 80_000, "large": 400_000}[in])}, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, ns := range []string{"copy", "ref"} {
			if p, err := s.Page(ctx, itemstore.At(ns, in), nil); err != nil || len(p.Items) > 20 || !p.More {
				t.Errorf("%s %s: a page of %d items, %v", ns, in, len(p.Items), err)
			}
		}
		if c, err := s.Sync(ctx, start.Token); err != nil || len(c.Changes) > 20 || !c.More {
			t.Errorf("%s: %d changes, %v", in, len(c.Changes), err)
		}
	}
}

// TestSyncAfterBackward: a client that has gone backward, and forward again, still has what was behind, and Sync tells of it.
func TestSyncAfterBackward(t *testing.T) {
	ctx := t.Context()
	for _, reverse := range []bool{false, true} {
		s := school(t)
		for q := range uint8(20) {
			if err := s.Put(ctx, &Course{ID: "M", Year: 2023, Quarter: q + 1}, nil); err != nil {
				t.Fatal(err)
			}
		}
		p, err := s.Page(ctx, "/course-M", &itemstore.ListOptions{Limit: 4, Reverse: reverse})
		for _, backward := range []bool{false, false, true, true, false} {
			if err == nil {
				p, err = s.NextPage(ctx, p.Token, &itemstore.NextOptions{Backward: backward})
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		third := map[bool]uint8{false: 11, true: 10}[reverse]
		if err := s.Put(ctx, &Course{ID: "M", Year: 2023, Quarter: third, Name: "new"}, nil); err != nil {
			t.Fatal(err)
		}
		if c, err := s.Sync(ctx, p.Token); err != nil || len(c.Changes) != 1 {
			t.Errorf("reverse %v: %v, %v", reverse, c.Changes, err)
		}
	}
}

// TestBoundsOfPrefix: a bound with another ID that only begins like the prefix isn't one of the list.
func TestBoundsOfPrefix(t *testing.T) {
	ctx := t.Context()
	s := school(t)
	for _, id := range []string{"a", "a\x00b", "a\x00c"} {
		if err := s.Put(ctx, &Course{ID: id, Year: 1, Quarter: 1}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := s.Page(ctx, "/course-a", &itemstore.ListOptions{AtMost: "/course-a\x00c"}); !errors.Is(err, itemstore.ErrPath) {
		t.Errorf("%v, %v", p.Items, err)
	}
}

// TestTokenOfNothing: bytes with the sum of a token are ErrToken too if there is nothing in them.
func TestTokenOfNothing(t *testing.T) {
	s := school(t)
	for _, text := range []string{"null", "{}", "[]", "1"} {
		b := append([]byte{1}, text...)
		b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
		if _, err := s.Sync(t.Context(), b); !errors.Is(err, itemstore.ErrToken) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestLongestPath: what can be put can be deleted, and swept.
func TestLongestPath(t *testing.T) {
	ctx := t.Context()
	type long struct {
		_ struct{} `path:"/long-:K" ttl:"from modified 10s"`
		K string
	}
	now := &at{time.Unix(1000, 0)}
	s, err := itemstore.Open(ctx, memory(t), "long", schemaOf(t, 1, itemstore.TypeOf[long](nil)), &itemstore.Options{Now: func() time.Time { return now.Time }})
	if err != nil {
		t.Fatal(err)
	}
	n := 9850
	for ; ; n++ {
		k := strings.Repeat("k", n)
		if err := s.Put(ctx, &long{K: k}, nil); errors.Is(err, txn.ErrKeyTooLarge) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(ctx, itemstore.At("long", k)); err != nil {
			t.Fatalf("an ID of %d bytes: %v", n, err)
		}
	}
	if n < 9900 {
		t.Errorf("an ID of %d bytes is too long", n)
	}
	if err := s.Put(ctx, &long{K: strings.Repeat("k", n-1)}, nil); err != nil {
		t.Fatal(err)
	}
	now.Time = now.Add(time.Hour)
	if swept, err := s.Sweep(ctx); err != nil || swept.Items != 1 {
		t.Errorf("%+v, %v", swept, err)
	}
}

// TestNilEmbedded: a field of a struct that isn't there is zero, for key paths and for filters.
func TestNilEmbedded(t *testing.T) {
	ctx := t.Context()
	type Geo struct{ Lat int }
	type where struct {
		*Geo
		City string
	}
	type place struct {
		_  struct{} `name:"Place" path:"/place-:N, /lat-:At.Lat/place-:N"`
		N  int
		At where
	}
	s, err := itemstore.Open(ctx, memory(t), "places", schemaOf(t, 1, itemstore.TypeOf[place](nil)), nil)
	if err == nil {
		err = s.PutAll(ctx, []any{&place{N: 1, At: where{&Geo{5}, "a"}}, &place{N: 2, At: where{City: "b"}}}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := paths(t, ctx, s, "/lat-5", nil); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if got := paths(t, ctx, s, "", &itemstore.ListOptions{Filters: map[string]string{"Place": "this.At.Lat == 5"}}); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// TestNoSyncTakesOver: Sync tells that an item has left a path, also if one takes the path of which it isn't told.
func TestNoSyncTakesOver(t *testing.T) {
	ctx := t.Context()
	type told struct {
		_  struct{} `path:"/told-:ID, /x-:X"`
		ID int
		X  string
	}
	type untold struct {
		_  struct{} `path:"/untold-:ID, /x-:X nosync"`
		ID int
		X  string
	}
	s, err := itemstore.Open(ctx, memory(t), "x", schemaOf(t, 1, itemstore.TypeOf[told](nil), itemstore.TypeOf[untold](nil)), nil)
	if err == nil {
		err = s.Put(ctx, &told{ID: 1, X: "x"}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Page(ctx, "/x-x", nil)
	if err == nil {
		err = s.PutAll(ctx, []any{&told{ID: 1}, &untold{ID: 1, X: "x"}}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if c, err := s.Sync(ctx, p.Token); err != nil || len(c.Changes) != 1 || c.Changes[0].Kind != itemstore.Deleted {
		t.Errorf("%+v, %v", c.Changes, err)
	}
	if got := paths(t, ctx, s, "/x-x", nil); len(got) != 1 {
		t.Errorf("the list is %v", got)
	}
	if problems, err := s.Check(ctx); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
