package itemstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A Doc with a UUID, an alias, a condition, and an end.
type Doc struct {
	_       struct{}          `path:"/doc-:ID, /slug-:Slug" ttl:"from modified :Keep"`
	ID      [16]byte          `item:"uuid"`
	Slug    string            `valid:"this.matches('^[a-z]+$') && size(this) < 10"`
	Keep    time.Duration     `valid:"this <= duration('1h')"`
	Made    time.Time         `item:"createdtime"`
	Changed time.Time         `item:"modifiedtime"`
	First   itemstore.Version `item:"createdversion"`
}

type Entry struct {
	_    struct{} `path:"/log-:Log/entry-:N"`
	Log  string
	N    uint64 `item:"sequence"`
	Text string `item:"default=nothing, yet"`
}

// at is a clock that tests set.
type at struct{ time.Time }

func docs(t testing.TB, e kv.Engine, now *at, random io.Reader) *itemstore.Store {
	t.Helper()
	schema := schemaOf(t, 1, itemstore.TypeOf[Doc](nil), itemstore.TypeOf[Entry](nil))
	s, err := itemstore.Open(t.Context(), e, "docs", schema, &itemstore.Options{Now: func() time.Time { return now.Time }, Random: random, TombstoneAge: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// repeat reads the same bytes again and again, and then others.
type repeat struct{ reads, same int }

func (r *repeat) Read(b []byte) (int, error) {
	r.reads++
	for i := range b {
		b[i] = byte(max(0, r.reads-r.same))
	}
	return len(b), nil
}

func TestMadeIDs(t *testing.T) {
	ctx := t.Context()
	now := &at{time.Unix(1000, 0)}
	s := docs(t, memory(t), now, &repeat{same: 5})
	a, b, c := &Doc{Slug: "a"}, &Doc{Slug: "b"}, &Doc{Slug: "a"}
	if err := s.Put(ctx, a, nil); err != nil || a.ID == [16]byte{} || a.ID[6]>>4 != 4 {
		t.Fatalf("%x, %v", a.ID, err)
	}
	// The next random bytes are the same: another ID is made.
	if err := s.Put(ctx, b, &itemstore.PutOptions{MustNotExist: true}); err != nil || b.ID == a.ID {
		t.Errorf("%x and %x, %v", a.ID, b.ID, err)
	}
	// The ID is free, and the other path isn't.
	if err := s.Put(ctx, c, &itemstore.PutOptions{MustNotExist: true}); !errors.Is(err, itemstore.ErrExists) || !errors.Is(err, itemstore.ErrPathTaken) {
		t.Errorf("a taken alias: %v", err)
	}
	if c.ID != [16]byte{} {
		t.Errorf("the ID %x stays though nothing was put", c.ID)
	}
	abort := errors.New("abort")
	err := s.Update(ctx, func(tx *itemstore.Tx) error {
		c.Slug = "c"
		if err := tx.Put(ctx, c, nil); err != nil || c.ID == [16]byte{} {
			t.Errorf("in a transaction the ID is %x, %v", c.ID, err)
		}
		return abort
	})
	if err != abort || c.ID != [16]byte{} {
		t.Errorf("%v, and the ID is %x", err, c.ID)
	}
	// A source of random bytes that ends.
	s = docs(t, memory(t), now, io.LimitReader(&repeat{}, 20))
	if err := s.Put(ctx, &Doc{Slug: "x"}, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("without random bytes: %v", err)
	}
}

// TestSequence: the numbers of what lands have no gap, whatever fails, and each parent has its own.
func TestSequence(t *testing.T) {
	ctx := t.Context()
	s := docs(t, memory(t), &at{time.Unix(1000, 0)}, nil)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 10 {
				err := s.Update(ctx, func(tx *itemstore.Tx) error {
					if err := tx.Put(ctx, &Entry{Log: "a"}, nil); err != nil {
						return err
					}
					if (w+i)%3 == 0 {
						return errors.ErrUnsupported
					}
					return tx.Put(ctx, &Entry{Log: fmt.Sprint("w", w)}, nil)
				})
				if err != nil && err != errors.ErrUnsupported {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n := uint64(0)
	for item, err := range s.List(ctx, "/log-a", nil) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; item.Value.(*Entry).N != n {
			t.Fatalf("number %d follows %d", item.Value.(*Entry).N, n-1)
		}
		if item.Value.(*Entry).Text != "nothing, yet" {
			t.Errorf("the default is %q", item.Value.(*Entry).Text)
		}
	}
	if n == 0 || n == 80 {
		t.Errorf("%d landed", n)
	}
}

// TestEnd: an item ends with its second, is gone for reads at once, and its paths are free.
func TestEnd(t *testing.T) {
	ctx := t.Context()
	now := &at{time.Unix(1000, 0)}
	s := docs(t, memory(t), now, nil)
	a := &Doc{Slug: "a", Keep: 10 * time.Second}
	forever := &Doc{Slug: "z"}
	if err := s.PutAll(ctx, []any{a, forever}, nil); err != nil {
		t.Fatal(err)
	}
	page, err := s.Page(ctx, "/slug-a", nil)
	if err != nil || len(page.Items) != 1 || page.Items[0].Ends != time.Unix(1010, 0).UTC() {
		t.Fatal(page, err)
	}
	now.Time = time.Unix(1009, 999_999_999)
	if _, err := itemstore.Get[Doc](ctx, s, "/slug-a"); err != nil {
		t.Errorf("before its end: %v", err)
	}
	now.Time = time.Unix(1010, 0)
	if _, err := itemstore.Get[Doc](ctx, s, "/slug-a"); !errors.Is(err, itemstore.ErrNotFound) {
		t.Errorf("at its end: %v", err)
	}
	if n := paths(t, ctx, s, "", nil); len(n) != 1 {
		t.Errorf("at its end there are %v", n)
	}
	// Another item takes the path, before any sweep.
	b := &Doc{Slug: "a", Keep: time.Minute}
	if err := s.Put(ctx, b, &itemstore.PutOptions{MustNotExist: true}); err != nil {
		t.Errorf("the path of what has ended: %v", err)
	}
	if swept, err := s.Sweep(ctx); err != nil || swept != (itemstore.Swept{}) {
		t.Errorf("swept %+v, %v", swept, err)
	}
	// Without a time to keep it, it stays.
	b.Keep = 0
	if err := s.Put(ctx, b, nil); err != nil {
		t.Fatal(err)
	}
	now.Time = time.Unix(5000, 0)
	if swept, err := s.Sweep(ctx); err != nil || swept.Items != 0 || swept.Deletions == 0 {
		t.Errorf("swept %+v, %v", swept, err)
	}
	if _, err := itemstore.Get[Doc](ctx, s, "/slug-a"); err != nil {
		t.Error(err)
	}
	ch, err := s.Sync(ctx, page.Token)
	if err != nil || ch.Reset || len(ch.Changes) != 1 || ch.More {
		t.Errorf("sync: %+v, %v", ch, err)
	}
	// A client that is older than what the log has forgotten starts over.
	if err := s.Delete(ctx, "/slug-a"); err != nil {
		t.Fatal(err)
	}
	now.Time = time.Unix(6000, 0)
	if swept, err := s.Sweep(ctx); err != nil || swept != (itemstore.Swept{Deletions: 2}) {
		t.Errorf("swept %+v, %v", swept, err)
	}
	ch, err = s.Sync(ctx, page.Token)
	if err != nil || !ch.Reset || len(ch.Changes) != 0 || !ch.More {
		t.Errorf("sync: %+v, %v", ch, err)
	}
	if ch, err = s.Sync(ctx, ch.Token); err != nil || ch.Reset || len(ch.Changes) != 0 || ch.More {
		t.Errorf("sync once more: %+v, %v", ch, err)
	}
	if problems, err := s.Check(ctx); err != nil || len(problems) > 0 {
		t.Errorf("check: %v, %v", problems, err)
	}
}

func TestConditions(t *testing.T) {
	ctx := t.Context()
	s := docs(t, memory(t), &at{time.Unix(1000, 0)}, nil)
	for _, c := range []struct {
		d     Doc
		field string
	}{
		{Doc{Slug: "good", Keep: time.Hour}, ""},
		{Doc{Slug: "Bad"}, "Slug"},
		{Doc{Slug: "toolongforit"}, "Slug"},
		{Doc{Slug: "other", Keep: 2 * time.Hour}, "Keep"},
		{Doc{Slug: "other", Keep: time.Millisecond}, "Keep"},
	} {
		err := s.Put(ctx, &c.d, nil)
		var fe *itemstore.FieldError
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &fe) || fe.Field != c.field || fe.Type != "Doc") {
			t.Errorf("%+v: %v", c.d, err)
		}
	}
	for _, bad := range []any{nil, Doc{}, (*Doc)(nil), &Student{}, "x"} {
		if err := s.Put(ctx, bad, nil); !errors.Is(err, itemstore.ErrUnknownType) {
			t.Errorf("put %T: %v", bad, err)
		}
	}
}

// TestTimes: an item keeps when it was made, and takes other times only if it is told to.
func TestTimes(t *testing.T) {
	ctx := t.Context()
	now := &at{time.Unix(1000, 5000)}
	s := docs(t, memory(t), now, nil)
	d := &Doc{Slug: "a"}
	if err := s.Put(ctx, d, nil); err != nil || !d.Made.Equal(now.Time) || !d.Changed.Equal(now.Time) {
		t.Fatalf("%+v, %v", d, err)
	}
	first := d.First
	now.Time = time.Unix(2000, 0)
	d.Made = time.Unix(1, 0)
	if err := s.Put(ctx, d, nil); err != nil || !d.Made.Equal(time.Unix(1000, 5000)) || !d.Changed.Equal(now.Time) || d.First != first {
		t.Errorf("%+v, %v", d, err)
	}
	d.Made, d.Changed = time.Unix(1, 0), time.Unix(2, 0)
	if err := s.Put(ctx, d, &itemstore.PutOptions{KeepTimes: true}); err != nil {
		t.Fatal(err)
	}
	got, err := itemstore.Get[Doc](ctx, s, "/slug-a")
	if err != nil || !got.Made.Equal(time.Unix(1, 0)) || !got.Changed.Equal(time.Unix(2, 0)) || got.First != first {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestPages goes through a list page by page, forward and back, while items come and go.
func TestPages(t *testing.T) {
	ctx := t.Context()
	s := docs(t, memory(t), &at{time.Unix(1000, 0)}, nil)
	numbers := func(p *itemstore.Page) (n []uint64) {
		for _, item := range p.Items {
			n = append(n, item.Value.(*Entry).N)
		}
		return n
	}
	put := func(n uint64) {
		if err := s.Put(ctx, &Entry{Log: "a", N: n}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for n := uint64(10); n <= 100; n += 10 {
		put(n)
	}
	for _, reverse := range []bool{false, true} {
		want := func(got *itemstore.Page, err error, more bool, n ...uint64) itemstore.Token {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(numbers(got), n) || got.More != more {
				t.Errorf("got %v, more %v; want %v, %v", numbers(got), got.More, n, more)
			}
			return got.Token
		}
		o := &itemstore.ListOptions{Limit: 3, Reverse: reverse, AtLeast: "/log-a/entry-20", LessThan: "/log-a/entry-100"}
		page, err := s.Page(ctx, "/log-a/entry", o)
		if reverse {
			k := want(page, err, true, 90, 80, 70)
			page, err = s.NextPage(ctx, k, nil)
			want(page, err, true, 60, 50, 40)
			continue
		}
		first := want(page, err, true, 20, 30, 40)
		put(45)
		put(25)
		page, err = s.NextPage(ctx, first, nil)
		second := want(page, err, true, 45, 50, 60)
		if err := s.Delete(ctx, "/log-a/entry-60", "/log-a/entry-45"); err != nil {
			t.Fatal(err)
		}
		page, err = s.NextPage(ctx, second, nil)
		third := want(page, err, false, 70, 80, 90)
		page, err = s.NextPage(ctx, third, nil)
		end := want(page, err, false)
		put(95)
		page, err = s.NextPage(ctx, end, nil)
		want(page, err, false, 95)
		back := &itemstore.NextOptions{Backward: true}
		page, err = s.NextPage(ctx, third, back)
		k := want(page, err, true, 30, 40, 50)
		page, err = s.NextPage(ctx, k, back)
		want(page, err, false, 20, 25)
		page, err = s.NextPage(ctx, k, nil)
		want(page, err, true, 70, 80, 90)
		if err := s.Delete(ctx, "/log-a/entry-25", "/log-a/entry-95"); err != nil {
			t.Fatal(err)
		}
		put(60)
	}
}

// TestListOptions has a filter, and options with a mistake.
func TestListOptions(t *testing.T) {
	ctx := t.Context()
	s := docs(t, memory(t), &at{time.Unix(1000, 0)}, nil)
	for _, n := range []uint64{10, 20, 70} {
		if err := s.Put(ctx, &Entry{Log: "a", N: n}, nil); err != nil {
			t.Fatal(err)
		}
	}
	found := 0
	for item, err := range s.List(ctx, "/log-a", &itemstore.ListOptions{Filters: map[string]string{"Entry": "this.N in [20, 70]"}}) {
		if n := item.Value.(*Entry).N; err != nil || n != 20 && n != 70 {
			t.Errorf("the filter lets %d pass, %v", n, err)
		}
		found++
	}
	if found != 2 {
		t.Errorf("the filter lets %d items pass, want 2", found)
	}
	for name, o := range map[string]*itemstore.ListOptions{
		"two bounds":    {AtLeast: "/log-a/entry-1", GreaterThan: "/log-a/entry-1"},
		"another group": {AtLeast: "/log-b/entry-1"},
	} {
		if _, err := s.Page(ctx, "/log-a", o); !errors.Is(err, itemstore.ErrPath) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Page(ctx, "/log-a", &itemstore.ListOptions{Types: []string{"Nothing"}}); !errors.Is(err, itemstore.ErrUnknownType) {
		t.Error(err)
	}
	if _, err := s.Page(ctx, "/log-a", &itemstore.ListOptions{Filters: map[string]string{"Entry": "this."}}); err == nil {
		t.Error("a filter with a mistake in it")
	}
}

// TestTokens: a token is of one store and one version of its schema, and Sync starts over with another version.
func TestTokens(t *testing.T) {
	ctx := t.Context()
	e := memory(t)
	s1 := openUsers(t, e, 1)
	for id := range 5 {
		if err := s1.Put(ctx, &userV1{ID: id + 1, Name: "n"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s1.Page(ctx, "/user-3", nil)
	if err != nil || len(page.Items) != 1 {
		t.Fatal(page, err)
	}
	s2 := openUsers(t, e, 2)
	if _, err := s2.NextPage(ctx, page.Token, nil); !errors.Is(err, itemstore.ErrToken) {
		t.Errorf("a page of another version: %v", err)
	}
	ch, err := s2.Sync(ctx, page.Token)
	if err != nil || !ch.Reset || len(ch.Changes) != 1 {
		t.Errorf("sync with another version: %+v, %v", ch, err)
	}
	if ch, err = s2.Sync(ctx, ch.Token); err != nil || ch.Reset || ch.More {
		t.Errorf("then: %+v, %v", ch, err)
	}
	other := openUsers(t, memory(t), 1)
	if _, err := other.Sync(ctx, page.Token); !errors.Is(err, itemstore.ErrToken) {
		t.Errorf("a token of another store: %v", err)
	}
	all, err := s1.Page(ctx, "", &itemstore.ListOptions{Limit: 2})
	if err != nil || !all.More {
		t.Fatal(all, err)
	}
	if _, err := s1.Sync(ctx, all.Token); !errors.Is(err, itemstore.ErrToken) {
		t.Errorf("sync of the whole store: %v", err)
	}
}

// TestSegments: the parts of a store are all of it, and nothing twice.
func TestSegments(t *testing.T) {
	ctx := t.Context()
	for name, e := range map[string]kv.Engine{"memory": memory(t), "disk": disk(t)} {
		s := docs(t, e, &at{time.Unix(1000, 0)}, nil)
		for _, n := range []int{0, 1, 3, 7} {
			list, err := s.Segments(ctx, n)
			if err != nil || len(list) != max(n, 1) && len(list) != 1 {
				t.Fatal(name, list, err)
			}
		}
		want := 0
		for l := range 20 {
			var items []any
			for n := range 50 {
				items = append(items, &Entry{Log: fmt.Sprint("log", l), N: uint64(n + 1), Text: "text"})
				want++
			}
			if err := s.PutAll(ctx, items, nil); err != nil {
				t.Fatal(err)
			}
		}
		list, err := s.Segments(ctx, 4)
		if err != nil || len(list) != 4 {
			t.Fatal(name, list, err)
		}
		seen := map[itemstore.Path]bool{}
		for i, seg := range list {
			had := len(seen)
			for item, err := range s.List(ctx, "", &itemstore.ListOptions{Segment: &seg}) {
				if err != nil || seen[item.Path] {
					t.Fatal(name, item.Path, err)
				}
				seen[item.Path] = true
			}
			t.Log(name, "segment", i, "has", len(seen)-had)
		}
		if len(seen) != want {
			t.Errorf("%s: %d items, want %d", name, len(seen), want)
		}
	}
}

// TestReadOnly: a view changes nothing.
func TestReadOnly(t *testing.T) {
	ctx := t.Context()
	s := school(t)
	err := s.View(ctx, func(tx *itemstore.Tx) error {
		if err := tx.Put(ctx, &Student{ID: 1}, nil); !errors.Is(err, txn.ErrReadOnly) {
			t.Errorf("put: %v", err)
		}
		return tx.Delete(ctx, "/student-1")
	})
	if !errors.Is(err, txn.ErrReadOnly) {
		t.Errorf("delete: %v", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Put(ctx, &Student{ID: 1}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("put with a context that has ended: %v", err)
	}
}

// A Plain is stored by a codec of its own.
type Plain struct {
	_    struct{} `path:"/plain-:ID, /word-:Word ref"`
	ID   int
	Word string
	Text string `item:"default=nothing"`
}

// words is its codec.
type words struct{}

func (words) Append(dst []byte, item any) ([]byte, error) {
	p := item.(*Plain)
	if p.Text == "bad" {
		return nil, errors.ErrUnsupported
	}
	return fmt.Appendf(dst, "%d|%s|%s", p.ID, p.Word, p.Text), nil
}

func (words) Decode(b []byte, item any) error {
	p, parts := item.(*Plain), strings.Split(string(b), "|")
	if len(parts) != 3 {
		return fmt.Errorf("%d parts", len(parts))
	}
	p.Word, p.Text = parts[1], parts[2]
	_, err := fmt.Sscan(parts[0], &p.ID)
	return err
}

func TestCodec(t *testing.T) {
	ctx := t.Context()
	e := memory(t)
	s, err := itemstore.Open(ctx, e, "s", schemaOf(t, 1, itemstore.TypeOf[Plain](&itemstore.TypeOptions{Codec: words{}})), nil)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 120_000)
	for id, text := range []string{"", "short", long} {
		if err := s.Put(ctx, &Plain{ID: id + 1, Word: fmt.Sprint("w", id), Text: text}, nil); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"": "nothing"}[text] + text
		got, err := itemstore.Get[Plain](ctx, s, itemstore.At("word", fmt.Sprint("w", id)))
		if err != nil || got.ID != id+1 || got.Text != want {
			t.Errorf("got %d with a text of %d bytes, %v", got.ID, len(got.Text), err)
		}
	}
	if err := s.Put(ctx, &Plain{ID: 9, Text: "bad"}, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an item that the codec refuses: %v", err)
	}
	bare, err := itemstore.Open(ctx, e, "s", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bare.Items(ctx, "/plain-1"); !errors.Is(err, itemstore.ErrUnknownType) {
		t.Errorf("without the codec: %v", err)
	}
	if err := bare.Delete(ctx, "/word-w1"); err != nil {
		t.Errorf("a deletion takes no codec: %v", err)
	}
	if problems, err := bare.Check(ctx); err != nil || len(problems) > 0 {
		t.Errorf("check: %v, %v", problems, err)
	}
}
