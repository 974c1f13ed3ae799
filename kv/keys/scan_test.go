package keys_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/tuple"
)

// mixed is a store with entries of several types, and of none.
func mixed(t testing.TB) *direct {
	t.Helper()
	d := store(kv.Set([]byte("no tuple"), nil), kv.Set(pack(actor, data), nil), kv.Set(pack(actor, data, "b"), nil))
	for i, user := range []string{"a", "b", "c"} {
		u := under{user}
		u.put(t, d, int64(i))
		must(t, keys.Put(d, profileKey{u}, person{Name: user}))
		must(t, keys.Put(d, u.image(7), bytes.Repeat([]byte(user), i*keys.ChunkSize)))
		for n := range 4 {
			must(t, keys.Put(d, u.member(n), struct{}{}))
		}
	}
	return d
}

// words returns what a scan yields, the keys as they print.
func words[K any, V any](t testing.TB, seq iter.Seq2[keys.Item[K, V], error]) []string {
	t.Helper()
	var all []string
	for item, err := range seq {
		must(t, err)
		all = append(all, fmt.Sprint(item.Key))
	}
	return all
}

// scanError returns the one error that a scan ends with, nil if it doesn't.
func scanError[K, V any](seq iter.Seq2[keys.Item[K, V], error]) error {
	var last error
	for _, err := range seq {
		if last != nil {
			return fmt.Errorf("the scan goes on after %v", last)
		}
		last = err
	}
	return last
}

func equal(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestAll(t *testing.T) {
	d := mixed(t)
	b := keys.Sub(under{"b"})
	equal(t, "all", words(t, keys.All[wakeKey](ctx, d, sub(), nil)), "{{a}}", "{{b}}", "{{c}}")
	equal(t, "in b", words(t, keys.All[memberKey](ctx, d, b, nil)), "{{b} 0}", "{{b} 1}", "{{b} 2}", "{{b} 3}")
	equal(t, "in members", words(t, keys.All[memberKey](ctx, d, b.Sub(member), nil)), "{{b} 0}", "{{b} 1}", "{{b} 2}", "{{b} 3}")
	equal(t, "chunked", words(t, keys.All[imageKey](ctx, d, sub(), nil)), "{{a} 7}", "{{b} 7}", "{{c} 7}")
	equal(t, "elsewhere", words(t, keys.All[memberKey](ctx, d, sub("x"), nil)))
	for name, c := range map[string]struct {
		o    keys.ScanOptions
		want []string
	}{
		"limit":         {keys.ScanOptions{Limit: 2}, []string{"0", "1"}},
		"reverse":       {keys.ScanOptions{Reverse: true}, []string{"3", "2", "1", "0"}},
		"reverse limit": {keys.ScanOptions{Reverse: true, Limit: 2}, []string{"3", "2"}},
		"limit is met":  {keys.ScanOptions{Limit: 4}, []string{"0", "1", "2", "3"}},
		"from":          {keys.ScanOptions{From: tuple.Tuple{member, 2}}, []string{"2", "3"}},
		"to":            {keys.ScanOptions{To: tuple.Tuple{member, 2}}, []string{"0", "1"}},
		"from to":       {keys.ScanOptions{From: tuple.Tuple{member, 1}, To: tuple.Tuple{member, 3}, Reverse: true}, []string{"2", "1"}},
		"to from":       {keys.ScanOptions{From: tuple.Tuple{member, 3}, To: tuple.Tuple{member, 1}}, nil},
		"after":         {keys.ScanOptions{After: pack(actor, data, "b", member, 1)}, []string{"2", "3"}},
		"after below":   {keys.ScanOptions{After: pack(actor, data, "a")}, []string{"0", "1", "2", "3"}},
		"after above":   {keys.ScanOptions{After: pack(actor, data, "c")}, nil},
		"before":        {keys.ScanOptions{After: pack(actor, data, "b", member, 2), Reverse: true}, []string{"1", "0"}},
		"before below":  {keys.ScanOptions{After: pack(actor, data, "a"), Reverse: true}, nil},
		"before above":  {keys.ScanOptions{After: pack(actor, data, "c"), Reverse: true, Limit: 1}, []string{"3"}},
	} {
		var want []string
		for _, n := range c.want {
			want = append(want, "{{b} "+n+"}")
		}
		equal(t, name, words(t, keys.All[memberKey](ctx, d, b, &c.o)), want...)
	}
	for _, o := range []keys.ScanOptions{{From: tuple.Tuple{int8(1)}}, {To: tuple.Tuple{int8(1)}}} {
		if err := scanError(keys.All[memberKey](ctx, d, b, &o)); !errors.Is(err, tuple.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	}
}

// TestAllSelf: the key that is the prefix is read only when it is asked for.
func TestAllSelf(t *testing.T) {
	d := mixed(t)
	for _, reverse := range []bool{false, true} {
		at := keys.Sub(under{"b"}.member(2))
		equal(t, "without", words(t, keys.All[memberKey](ctx, d, at, &keys.ScanOptions{Reverse: reverse})))
		equal(t, "with", words(t, keys.All[memberKey](ctx, d, at, &keys.ScanOptions{Reverse: reverse, Self: true})), "{{b} 2}")
	}
}

// TestAllStrict: where nothing else should be, nothing else is skipped.
func TestAllStrict(t *testing.T) {
	d := mixed(t)
	o := &keys.ScanOptions{Strict: true}
	equal(t, "members", words(t, keys.All[memberKey](ctx, d, sub(actor, data, "b", member), o)), "{{b} 0}", "{{b} 1}", "{{b} 2}", "{{b} 3}")
	err := scanError(keys.All[memberKey](ctx, d, keys.Sub(under{"b"}), o))
	if !errors.Is(err, keys.ErrOtherKey) || err.Error() != `keys: scan: (32, 4, "b", 21): keys: key of another type` {
		t.Errorf("got %v", err)
	}
}

// TestAllStops: the sequence takes no for an answer, and can be run again.
func TestAllStops(t *testing.T) {
	d := mixed(t)
	for name, seq := range map[string]iter.Seq2[keys.Item[imageKey, []byte], error]{
		"forward": keys.All[imageKey](ctx, d, sub(), nil), "reverse": keys.All[imageKey](ctx, d, sub(), &keys.ScanOptions{Reverse: true}),
	} {
		for range 2 {
			n := 0
			for range seq {
				if n++; n == 2 {
					break
				}
			}
			if n != 2 {
				t.Errorf("%s: got %d items, want 2", name, n)
			}
		}
	}
}

// TestAllKeeps: what was yielded stays as it is when the scan goes on.
func TestAllKeeps(t *testing.T) {
	d := mixed(t)
	items, next, err := keys.Page[imageKey](ctx, d, sub(), nil)
	if err != nil || next != nil || len(items) != 3 {
		t.Fatalf("got %d items, next %x, %v", len(items), next, err)
	}
	for i, item := range items {
		user := string(rune('a' + i))
		if item.Key.User != user || string(item.Value) != strings.Repeat(user, i*keys.ChunkSize) {
			t.Errorf("item %d is %v with %d bytes", i, item.Key, len(item.Value))
		}
	}
}

// TestLimitReadsNoMore: a limit reaches the engine, where it makes a difference,
// and isn't the end when entries are skipped.
func TestLimitReadsNoMore(t *testing.T) {
	mem := memkv.New()
	eng := faultkv.New(mem)
	d := &direct{Engine: mem}
	for n := range 100 {
		must(t, keys.Put(d, under{"u"}.member(n), struct{}{}))
		if n%3 == 0 {
			must(t, d.Set(pack(actor, data, "u", member, n, "other"), nil))
		}
	}
	limits := []int{}
	r := spy{eng, func(r kv.Range) { limits = append(limits, r.Limit) }, false}
	got := words(t, keys.All[memberKey](ctx, r, keys.Sub(under{"u"}), &keys.ScanOptions{Limit: 6}))
	equal(t, "six", got, "{{u} 0}", "{{u} 1}", "{{u} 2}", "{{u} 3}", "{{u} 4}", "{{u} 5}")
	if !slices.Equal(limits, []int{6, 2}) {
		t.Errorf("the limits of the scans are %v, want 6, and 2 more for those that were skipped", limits)
	}
}

// A spy shows the ranges that are scanned.
type spy struct {
	kv.Reader
	scan func(kv.Range)
	all  bool // yield all there is, whatever the range
}

func (s spy) Scan(c context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	s.scan(r)
	if s.all {
		r = kv.Range{}
	}
	return s.Reader.Scan(c, r)
}

// TestPages: pages of any limit, in both directions, put together, are all entries;
// and the cursor of an item leads to the ones behind it.
func TestPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := store()
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 40), 0, 30).Draw(t, "numbers") {
			u := under{string(rune('a' + n%3))}
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				mustR(t, keys.Put(d, u.image(int64(n)), make([]byte, n*1000)))
			case 1:
				mustR(t, keys.Put(d, u.member(n), struct{}{}))
			case 2:
				mustR(t, keys.Put(d, profileKey{u}, person{}))
			case 3:
				mustR(t, d.Set(pack(actor, data, u.User, n), nil))
			}
		}
		o := keys.ScanOptions{Reverse: rapid.Bool().Draw(t, "reverse")}
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		pages[imageKey](t, d, o, limit)
		pages[memberKey](t, d, o, limit)
	})
}

func pages[K keys.Key[V], V any, P keys.Pointer[K]](t *rapid.T, d *direct, o keys.ScanOptions, limit int) {
	var want, got []string
	for item, err := range keys.All[K, V, P](ctx, d, sub(), &o) {
		mustR(t, err)
		want = append(want, fmt.Sprint(item.Key))
		rest := o
		rest.After = item.Cursor()
		n := 0
		for _, err := range keys.All[K, V, P](ctx, d, sub(), &rest) {
			mustR(t, err)
			n++
		}
		defer func(i int) {
			if n != len(want)-i {
				t.Errorf("behind item %d of %d are %d", i, len(want), n)
			}
		}(len(want))
	}
	po := keys.PageOptions{ScanOptions: o}
	po.Limit = limit
	for {
		items, next, err := keys.Page[K, V, P](ctx, d, sub(), &po)
		mustR(t, err)
		for _, item := range items {
			got = append(got, fmt.Sprint(item.Key))
		}
		if len(items) > limit || next == nil && len(got) < len(want) || next != nil && len(items) < limit {
			t.Fatalf("a page of %d, limit %d, next %x", len(items), limit, next)
		}
		if po.After = next; next == nil {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("pages are %q, all is %q", got, want)
	}
}

func mustR(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// TestPageBudget: a page ends when its time is over, also among entries that are
// skipped, and never within a chunked value.
func TestPageBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := mixed(t)
		slow := spy2{d, func() { time.Sleep(time.Second) }}
		for _, o := range []keys.PageOptions{
			{Budget: 2500 * time.Millisecond},
			{Budget: time.Nanosecond},
			{Budget: 3 * time.Second, ScanOptions: keys.ScanOptions{Reverse: true}},
		} {
			var got []string
			n, empty := 0, 0
			for {
				start := time.Now()
				items, next, err := keys.Page[imageKey](ctx, slow, sub(), &o)
				must(t, err)
				// A value of two pieces and the row that ends it may come on top.
				if d := time.Since(start); d > o.Budget+4*time.Second {
					t.Errorf("a page took %v, budget %v", d, o.Budget)
				}
				if n++; len(items) == 0 {
					empty++
				}
				for _, item := range items {
					got = append(got, fmt.Sprint(item.Key, len(item.Value)))
				}
				if o.After = next; next == nil {
					break
				}
			}
			if o.Reverse {
				slices.Reverse(got)
			}
			equal(t, fmt.Sprint(o.Budget), got, "{{a} 7} 0", "{{b} 7} 10000", "{{c} 7} 20000")
			if n < 6 || empty == 0 {
				t.Errorf("%d pages, %d of them empty", n, empty)
			}
		}
	})
}

// A spy2 does something before every entry.
type spy2 struct {
	kv.Reader
	before func()
}

func (s spy2) Scan(c context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		for e, err := range s.Reader.Scan(c, r) {
			s.before()
			if !yield(e, err) {
				return
			}
		}
	}
}

func TestWalk(t *testing.T) {
	d := mixed(t)
	var when time.Time
	var who *person
	var got []string
	b := keys.Sub(under{"b"})
	err := keys.Walk(ctx, d, b, nil,
		keys.On(func(_ wakeKey, at time.Time) error { when = at; return nil }),
		keys.On(func(_ profileKey, p person) error { who = &p; return nil }),
		keys.On(func(k memberKey, _ struct{}) error { got = append(got, fmt.Sprint(k)); return nil }),
		keys.On(func(k imageKey, v []byte) error { got = append(got, fmt.Sprint(k, len(v))); return nil }))
	must(t, err)
	if !when.Equal(at(1)) || who == nil || who.Name != "b" {
		t.Errorf("got %v, %v", when, who)
	}
	equal(t, "others", got, "{{b} 7} 10000", "{{b} 0}", "{{b} 1}", "{{b} 2}", "{{b} 3}")
	no := errors.New("no")
	if err := keys.Walk(ctx, d, sub(), nil, keys.On(func(memberKey, struct{}) error { return no })); err != no {
		t.Errorf("got %v, want %v", err, no)
	}
}

// TestWalkFirstCase: an entry goes to the first case that takes it.
func TestWalkFirstCase(t *testing.T) {
	d := mixed(t)
	first, second := 0, 0
	must(t, keys.Walk(ctx, d, sub(), &keys.ScanOptions{Limit: 2},
		keys.On(func(wakeKey, time.Time) error { first++; return nil }),
		keys.On(func(wakeKey, time.Time) error { second++; return nil })))
	if first != 2 || second != 0 {
		t.Errorf("got %d and %d", first, second)
	}
}

// TestTexts: each first element comes once, in order, by one row of each, and what isn't a text is an error.
func TestTexts(t *testing.T) {
	names := []string{"", "a", "a\x00", "ab", "ü"}
	sub := tuple.NewSubspace(tuple.Tuple{"names"})
	e := memkv.New()
	ops := []kv.Op{kv.Set(sub.Bytes(), nil), kv.Set(pack("namesake"), nil), kv.Set(pack("name", "x"), nil)}
	for _, name := range names {
		for n := range 3 {
			ops = append(ops, kv.Set(sub.Pack(tuple.Tuple{name, n}), nil))
		}
		ops = append(ops, kv.Set(sub.Pack(tuple.Tuple{name}), nil))
	}
	if err := e.Commit(ctx, &kv.Commit{Ops: ops}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for name, err := range keys.Texts(ctx, e, sub) {
		must(t, err)
		got = append(got, name)
	}
	if !slices.Equal(got, names) {
		t.Errorf("got %q, want %q", got, names)
	}
	for name := range keys.Texts(ctx, e, sub) {
		if name != "" {
			t.Errorf("%q after the loop was left", name)
		}
		break
	}
	if err := e.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(sub.Pack(tuple.Tuple{"b"}), nil), kv.Set(sub.Pack(tuple.Tuple{7}), nil)}}); err != nil {
		t.Fatal(err)
	}
	var failed error
	for _, failed = range keys.Texts(ctx, e, sub) {
		continue
	}
	if !errors.Is(failed, kv.ErrCorrupt) {
		t.Errorf("an element that is not a text: %v", failed)
	}
}
