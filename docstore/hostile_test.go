package docstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func checked(t *testing.T, s *docstore.Store) {
	t.Helper()
	if problems, err := s.Check(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("check: %v, %q", err, problems)
	}
}

func hooked(t *testing.T, h docstore.Hook) *docstore.Store {
	return open(t, &docstore.Options{Hooks: []docstore.Hook{h}})
}

// a hook creates something in the container that is being deleted
func TestHostileHookDelete(t *testing.T) {
	ctx := t.Context()
	for _, in := range []docstore.Path{"/c/a", "/c/z"} {
		s := hooked(t, func(ctx context.Context, tx *docstore.Tx, e *docstore.Event) error {
			if e.Op == docstore.OpDelete && e.Label == "T" {
				return tx.Create(ctx, in, "Trace", nil)
			}
			return nil
		})
		update(t, s, func(tx *docstore.Tx) error {
			return errors.Join(tx.CreateContainer(ctx, "/c"), tx.Create(ctx, "/c/m", "T", nil))
		})
		update(t, s, func(tx *docstore.Tx) error { return tx.Delete(ctx, "/c", true) })
		checked(t, s)
	}
}

func TestHostileHookMove(t *testing.T) {
	ctx := t.Context()
	for _, in := range []docstore.Path{"/c/a", "/c/z"} {
		s := hooked(t, func(ctx context.Context, tx *docstore.Tx, e *docstore.Event) error {
			if e.Op == docstore.OpMove && e.Label == "T" {
				return tx.Create(ctx, in, "Trace", nil)
			}
			return nil
		})
		update(t, s, func(tx *docstore.Tx) error {
			return errors.Join(tx.CreateContainer(ctx, "/c"), tx.Create(ctx, "/c/m", "T", nil))
		})
		update(t, s, func(tx *docstore.Tx) error { return tx.Move(ctx, "/c", "/d") })
		checked(t, s)
	}
}

// a hook deletes a sibling that is still to come
func TestHostileHookSibling(t *testing.T) {
	ctx := t.Context()
	for _, op := range []docstore.Op{docstore.OpMove, docstore.OpDelete} {
		for _, victim := range []docstore.Path{"/c/b", "/c/z"} {
			for _, compat := range []bool{false, true} {
				s := open(t, &docstore.Options{Compat: compat, Hooks: []docstore.Hook{func(ctx context.Context, tx *docstore.Tx, e *docstore.Event) error {
					if e.Op == op && e.Path.Name() == "a" {
						return tx.Delete(ctx, victim, false)
					}
					return nil
				}}})
				update(t, s, func(tx *docstore.Tx) error {
					return errors.Join(tx.CreateContainer(ctx, "/c"), tx.Create(ctx, "/c/a", "T", nil), tx.Create(ctx, "/c/b", "T", nil), tx.Create(ctx, "/c/z", "T", nil))
				})
				err := s.Update(ctx, func(tx *docstore.Tx) error {
					if op == docstore.OpMove {
						return tx.Move(ctx, "/c", "/d")
					}
					return tx.Delete(ctx, "/c", true)
				})
				if err != nil {
					t.Errorf("%v %s %v: %v", op, victim, compat, err)
				}
				checked(t, s)
			}
		}
	}
}

// a hook deletes the container whose child is deleted
func TestHostileHookContainer(t *testing.T) {
	ctx := t.Context()
	n := 0
	s := hooked(t, func(ctx context.Context, tx *docstore.Tx, e *docstore.Event) error {
		if e.Op == docstore.OpDelete && e.Path == "/c" {
			n++
		}
		if e.Op == docstore.OpDelete && e.Label == "T" {
			return tx.Delete(ctx, "/c", true)
		}
		return nil
	})
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.CreateContainer(ctx, "/c"), tx.Create(ctx, "/c/m", "T", nil), tx.Create(ctx, "/c/n", "T", nil))
	})
	update(t, s, func(tx *docstore.Tx) error { return tx.Delete(ctx, "/c", true) })
	if n != 1 {
		t.Errorf("%d events", n)
	}
	checked(t, s)
}

func TestHostileWideRow(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	docstore.Small(s)
	var b strings.Builder
	for r := rune(0x3400); r < 0xd7a0; r++ {
		fmt.Fprintf(&b, ": %c", r)
	}
	update(t, s, func(tx *docstore.Tx) error { return tx.CreateIndex(ctx, "/idx", "T", "s") })
	for i := range 5 {
		update(t, s, func(tx *docstore.Tx) error {
			return tx.Create(ctx, docstore.Path(fmt.Sprint("/", i)), "T", props{"s": b.String()})
		})
	}
	if err := s.Rebuild(ctx, "/idx", nil); err != nil {
		t.Errorf("rebuild: %v", err)
	}
	must(t, s.View(ctx, func(tx *docstore.Tx) error {
		for _, p := range []string{"*: 한*", "*한:*", "*:*", "*: *", "*丁: 丂*"} {
			if m, err := tx.Search(ctx, "/idx", p, nil); err != nil || len(m) != 5 {
				t.Errorf("%s finds %v, %v", p, m, err)
			}
		}
		return nil
	}))
	checked(t, s)
}

func TestHostilePrefixNames(t *testing.T) {
	ctx := t.Context()
	e := memkv.New()
	var stores []*docstore.Store
	for _, n := range []string{"", "a", "a\x00", "a\x00b", "ab", "a\xc3\xbf"} {
		s, err := docstore.Open(ctx, e, n, nil)
		must(t, err)
		stores = append(stores, s)
		update(t, s, func(tx *docstore.Tx) error {
			return tx.Create(ctx, docstore.Path(fmt.Sprint("/", len(stores))), "T", nil)
		})
	}
	for i, s := range stores {
		checked(t, s)
		must(t, s.View(ctx, func(tx *docstore.Tx) error {
			if got := list(t, tx.Members(ctx, "/")); len(got) != 1 {
				t.Error(i, got)
			}
			return nil
		}))
	}
}

func TestHostileEmptySets(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	must(t, s.Import(ctx, pairs([]docstore.Pair{
		{Key: "children:/", Value: encoded([]string{"c", "k", "x"})}, {Key: "typeidx:T", Value: encoded([]string{})},
		{Key: "entity:/", Value: pair(int64(4), nil)},
		{Key: "entity:/c", Value: pair(int64(4), nil)}, {Key: "children:/c", Value: encoded([]string{})},
		{Key: "entity:/k", Value: pair(int64(3), nil)}, {Key: "catcfg:/k", Value: pair("T", "g")}, {Key: "catl:/k:group:x", Value: encoded([]string{})},
		{Key: "catl:/k:keys", Value: encoded([]string{"x"})},
		{Key: "entity:/x", Value: pair(int64(2), nil)}, {Key: "config:/x", Value: pair("T", "g == 'x'")}, {Key: "cat:/x:members", Value: encoded([]string{})},
	})))
	checked(t, s)
	update(t, s, func(tx *docstore.Tx) error { return tx.Create(ctx, "/d", "T", props{"g": "x"}) })
	checked(t, s)
	update(t, s, func(tx *docstore.Tx) error { return tx.Delete(ctx, "/k", false) })
	checked(t, s)
}

func TestHostileNoProps(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	must(t, s.Import(ctx, pairs([]docstore.Pair{{Key: "children:/", Value: encoded([]string{"k"})}, {Key: "typeidx:T", Value: encoded([]string{"/k"})}, {Key: "entity:/k", Value: pair(int64(1), "T")}})))
	checked(t, s)
	must(t, s.View(ctx, func(tx *docstore.Tx) error {
		n := 0
		for range tx.Find(ctx, "T", "", nil) {
			n++
		}
		if n != 1 {
			t.Error(n)
		}
		return nil
	}))
	update(t, s, func(tx *docstore.Tx) error { return tx.SetProperty(ctx, "/k", "a", 1) })
	checked(t, s)
	update(t, s, func(tx *docstore.Tx) error { return tx.Delete(ctx, "/k", false) })
	checked(t, s)
}

// odd returns a random text of characters that normalisation changes.
func odd(r *rand.Rand, n int) string {
	pool := []rune("aAbeiIsSßẞſkKKåÅÅ\u0301\u0308\u0345\u0327\u030c\u0131İĳŉǰΐΰᾳᾴᾷιΙσςΣ가각각日本😀~\x00\x02\x03:*. \u09c7\u09be\u0b47\u0b56ᏸᲀꭰᎠﬁﬃ\ufffdµμ")
	var b strings.Builder
	for range n {
		b.WriteRune(pool[r.IntN(len(pool))])
	}
	return b.String()
}

func TestHostileIndexPlan(t *testing.T) {
	ctx := t.Context()
	r := rand.New(rand.NewPCG(7, 7))
	for round := range 3 {
		s, plain := open(t, nil), open(t, nil)
		docstore.Small(s)
		update(t, s, func(tx *docstore.Tx) error { return tx.CreateIndex(ctx, "/idx", "T", "s") })
		var texts []string
		for i := range 60 {
			text := odd(r, 1+r.IntN(40))
			if i%3 == 0 {
				text = odd(r, 5)
			}
			texts = append(texts, text)
			for _, s := range []*docstore.Store{s, plain} {
				update(t, s, func(tx *docstore.Tx) error {
					return tx.Create(ctx, docstore.Path(fmt.Sprintf("/%03d", i)), "T", props{"s": text})
				})
			}
		}
		used := 0
		for range 200 {
			text := []rune(texts[r.IntN(len(texts))])
			from := r.IntN(len(text))
			to := from + 1 + r.IntN(len(text)-from)
			sub := string(text[from:to])
			op := []string{"s.contains(p0)", "s.startsWith(p0)", "s.endsWith(p0)", "s == p0"}[r.IntN(4)]
			var got [2][]docstore.Path
			for i, s := range []*docstore.Store{s, plain} {
				must(t, s.View(ctx, func(tx *docstore.Tx) error {
					opts := &docstore.FindOptions{Params: []any{sub}}
					if p, err := tx.Explain(ctx, "T", op, opts); err == nil && p.Index != "" {
						used++
					}
					for d, err := range tx.Find(ctx, "T", op, opts) {
						must(t, err)
						got[i] = append(got[i], d.Path)
					}
					return nil
				}))
			}
			if !slices.Equal(got[0], got[1]) {
				t.Fatalf("%d: %s %+q: %v, want %v", round, op, sub, got[0], got[1])
			}
		}
		if used == 0 {
			t.Error("no index used")
		}
	}
}

// deleting in a loop of Find
func TestHostileFindDelete(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.CreateCategory(ctx, "/k", "T", "n == 1"), tx.CreateContainer(ctx, "/c"), tx.Create(ctx, "/c/a", "T", props{"n": 1}), tx.Create(ctx, "/c/b", "T", props{"n": 1}))
	})
	for _, e := range []string{"", "n == 1"} {
		_ = s.Update(ctx, func(tx *docstore.Tx) error {
			n := 0
			for d, err := range tx.Find(ctx, "T", e, nil) {
				must(t, err)
				if n++; n == 1 {
					must(t, tx.Delete(ctx, "/c/b", false))
				} else {
					t.Errorf("%q: %v", e, d)
				}
			}
			return errors.New("stop")
		})
	}
}

func TestHostileTypedPlans(t *testing.T) {
	ctx := t.Context()
	r := rand.New(rand.NewPCG(3, 3))
	values := []any{nil, true, false, int64(1), uint64(1), 1.0, 1.5, math.Copysign(0, -1), int64(0), "1", "", "true", "null", "~n", int64(-1), uint64(1 << 63), 9.223372036854775807e18, int64(-1 << 63), []any{int64(1)}, map[string]any{"a": int64(1)}, []byte("x"), "e\u0301", "é"}
	exprs := []string{"a == p0", "a == 1", "a == 1u", "a == 1.0", "a == null", "a == true", "a == ''", "!(a == 1)", "this.a == p0", "a == b", "a == p0 && b == p1", "a == p0 || b == p1", "p0 == a", "b.a == p0", "a in [p0]", "a != null && a == p0", "has(this.a)", "a == 'e\u0301'", "size(this) == 1"}
	a, b := open(t, nil), open(t, nil)
	update(t, a, func(tx *docstore.Tx) error {
		errs := []error{}
		for i, e := range []string{"a", "b", "this.a", "b.a", "this.b", "a == null"} {
			errs = append(errs, tx.CreateCatalogue(ctx, docstore.Path(fmt.Sprint("/l", i)), "T", e))
		}
		for i, e := range []string{"a == 1", "!(a == 1)", "a == b", "has(this.a)", "a == null", "a != null", "size(this) == 1"} {
			errs = append(errs, tx.CreateCategory(ctx, docstore.Path(fmt.Sprint("/k", i)), "T", e))
		}
		return errors.Join(append(errs, tx.CreateIndex(ctx, "/i", "T", "a"))...)
	})
	for i := range 120 {
		p := props{}
		if r.IntN(5) > 0 {
			p["a"] = values[r.IntN(len(values))]
		}
		if r.IntN(3) > 0 {
			p["b"] = values[r.IntN(len(values))]
		}
		if r.IntN(20) == 0 {
			p["this"] = map[string]any{"a": "other"}
		}
		if r.IntN(20) == 0 {
			p["p0"] = int64(1)
		}
		for _, s := range []*docstore.Store{a, b} {
			update(t, s, func(tx *docstore.Tx) error { return tx.Create(ctx, docstore.Path(fmt.Sprintf("/%03d", i)), "T", p) })
		}
	}
	checked(t, a)
	for range 600 {
		e := exprs[r.IntN(len(exprs))]
		opts := &docstore.FindOptions{}
		if r.IntN(4) > 0 {
			opts.Params = []any{values[r.IntN(len(values))], values[r.IntN(len(values))]}[:1+r.IntN(2)]
		}
		if r.IntN(3) == 0 {
			opts.After, opts.Limit = docstore.Path(fmt.Sprintf("/%03d", r.IntN(120))), 1+r.IntN(20)
		}
		var got [2]string
		for i, s := range []*docstore.Store{a, b} {
			must(t, s.View(ctx, func(tx *docstore.Tx) error {
				for d, err := range tx.Find(ctx, "T", e, opts) {
					if err != nil {
						t.Fatalf("%s %v: %v", e, opts, err)
					}
					got[i] += string(d.Path)
				}
				return nil
			}))
		}
		if got[0] != got[1] {
			t.Errorf("%s %#v: %s, want %s", e, opts.Params, got[0], got[1])
		}
	}
}

func TestHostileDuplicates(t *testing.T) {
	ctx := t.Context()
	for _, compat := range []bool{false, true} {
		s := open(t, &docstore.Options{Compat: compat})
		must(t, s.Import(ctx, pairs([]docstore.Pair{
			{Key: "children:/", Value: encoded([]string{"a", "a", "b"})}, {Key: "typeidx:T", Value: encoded([]string{"/a", "/b", "/a"})},
			{Key: "entity:/a", Value: pair(int64(1), "T")}, {Key: "props:/a", Value: encoded(map[string]any{})},
			{Key: "entity:/b", Value: pair(int64(1), "T")}, {Key: "props:/b", Value: encoded(map[string]any{})},
		})))
		checked(t, s)
		update(t, s, func(tx *docstore.Tx) error { return tx.Delete(ctx, "/a", false) })
		checked(t, s)
	}
}

// TestHostileNoConfig: a category without its expression could neither be read nor deleted.
func TestHostileNoConfig(t *testing.T) {
	s := open(t, nil)
	err := s.Import(t.Context(), pairs([]docstore.Pair{{Key: "children:/", Value: encoded([]string{"k"})}, {Key: "entity:/k", Value: pair(int64(2), nil)}}))
	if !errors.Is(err, docstore.ErrCorrupt) {
		t.Errorf("it is imported with %v", err)
	}
}

// TestHostileNoEntity: a container that lists what isn't there can be deleted.
func TestHostileNoEntity(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	must(t, s.Import(ctx, pairs([]docstore.Pair{{Key: "children:/", Value: encoded([]string{"k"})}, {Key: "entity:/k", Value: pair(int64(4), nil)}, {Key: "children:/k", Value: encoded([]string{"gone"})}})))
	must(t, s.Delete(ctx, "/k", true))
	checked(t, s)
}

// TestHostileEmptyLabel: a document without a type would be dumped so that the dump is refused.
func TestHostileEmptyLabel(t *testing.T) {
	s := open(t, nil)
	err := s.Import(t.Context(), pairs([]docstore.Pair{{Key: "children:/", Value: encoded([]string{"k"})}, {Key: "entity:/k", Value: pair(int64(1), nil)}, {Key: "props:/k", Value: encoded(map[string]any{})}}))
	if !errors.Is(err, docstore.ErrCorrupt) {
		t.Errorf("it is imported with %v", err)
	}
}

func TestHostileAmbiguousKeys(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.CreateCatalogue(ctx, "/a", "T", "g"), tx.CreateCatalogue(ctx, "/a:group:b", "T", "g"), tx.CreateCategory(ctx, "/c", "T", "true"), tx.CreateCategory(ctx, "/c:members", "T", "true"),
			tx.CreateIndex(ctx, "/i", "T", "g"), tx.CreateIndex(ctx, "/i:tri:a", "T", "g"), tx.Create(ctx, "/d", "T", props{"g": "x"}), tx.Create(ctx, "/d:members", "T", props{"g": "/d"}))
	})
	checked(t, s)
	all := dump(t, s)
	for _, compat := range []bool{false, true} {
		c := open(t, &docstore.Options{Compat: compat})
		must(t, c.Import(ctx, pairs(all)))
		checked(t, c)
		sameDumps(t, dump(t, c), all)
		exports(t, c, all)
	}
}

// TestHostileRebuildDisabled: while what was disabled is built anew, no query goes by what was imported.
func TestHostileRebuildDisabled(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	docstore.Small(s)
	var names, paths []string
	all := []docstore.Pair{{Key: "entity:/k", Value: pair(int64(2), nil)}, {Key: "config:/k", Value: pair("T", "n == 1")}, {Key: "cat:/k:members", Value: encoded([]string{"/05"})}}
	for i := range 12 {
		name := fmt.Sprintf("%02d", i)
		names, paths = append(names, name), append(paths, "/"+name)
		all = append(all, docstore.Pair{Key: "entity:/" + name, Value: pair(int64(1), "T")}, docstore.Pair{Key: "props:/" + name, Value: encoded(map[string]any{"n": int64(1)})})
	}
	all = append(all, docstore.Pair{Key: "children:/", Value: encoded(append(names, "k"))}, docstore.Pair{Key: "typeidx:T", Value: encoded(paths)})
	must(t, s.Import(ctx, pairs(all)))
	find := func(when string) {
		t.Helper()
		must(t, s.View(ctx, func(tx *docstore.Tx) error {
			n := 0
			for _, err := range tx.Find(ctx, "T", "n == 1", nil) {
				must(t, err)
				n++
			}
			if n != 12 {
				t.Errorf("%s %d are found", when, n)
			}
			return nil
		}))
	}
	find("before")
	func() {
		defer func() { _ = recover() }()
		_ = s.Rebuild(ctx, "/k", &docstore.BuildOptions{Progress: func(docstore.Progress) { panic("as if the process had ended") }})
	}()
	find("while it is built")
	must(t, s.Build(ctx, "/k", nil))
	find("then")
	checked(t, s)
}

func rowsWith(t *testing.T, s *docstore.Store, part string) (n int) {
	t.Helper()
	keys, err := docstore.Keys(t.Context(), s)
	must(t, err)
	for _, k := range keys {
		if strings.Contains(k, part) {
			n++
		}
	}
	return n
}

func TestHostileDeletedTexts(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	docstore.Small(s)
	update(t, s, func(tx *docstore.Tx) error { return tx.CreateIndex(ctx, "/i", "T", "s") })
	for i := range 24 {
		update(t, s, func(tx *docstore.Tx) error {
			return tx.Create(ctx, docstore.Path(fmt.Sprint("/", i)), "T", props{"s": fmt.Sprint("secret ", i)})
		})
	}
	for i := range 24 {
		update(t, s, func(tx *docstore.Tx) error { return tx.Delete(ctx, docstore.Path(fmt.Sprint("/", i)), false) })
	}
	if n := rowsWith(t, s, ":txt\x00"); n > 4 {
		t.Errorf("%d texts of deleted documents are left", n)
	}
	checked(t, s)
}

func TestHostileLongPending(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	update(t, s, func(tx *docstore.Tx) error { return tx.CreateIndex(ctx, "/i", "T", "s") })
	for i := range 12 {
		update(t, s, func(tx *docstore.Tx) error {
			return tx.Create(ctx, docstore.Path(fmt.Sprint("/", i)), "T", props{"s": strings.Repeat("text ", 180_000)})
		})
	}
	if n := rowsWith(t, s, ":new\x00"); n > 40 {
		t.Errorf("%d rows of pending texts of 10 MB", n)
	}
	checked(t, s)
}

// deletion of all beside writers, moves and builds
func TestHostileDeleteBesideWriters(t *testing.T) {
	for name, engine := range map[string]func(t testing.TB) kv.Engine{"memkv": memory, "pebblekv": disk, "pgkv": postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			e := engine(t)
			open := func(compat bool) *docstore.Store {
				s, err := docstore.Open(ctx, e, "del", &docstore.Options{Compat: compat})
				must(t, err)
				docstore.Small(s)
				return s
			}
			s := open(false)
			rounds := 6
			if name == "pgkv" {
				rounds = 2
			}
			for round := range rounds {
				update(t, s, func(tx *docstore.Tx) error {
					return errors.Join(tx.CreateContainer(ctx, "/c"), tx.CreateCategory(ctx, "/c/k", "T", "n > 1"), tx.CreateCatalogue(ctx, "/c/l", "T", "n"), tx.CreateIndex(ctx, "/c/i", "T", "s"), tx.CreateIndex(ctx, "/i", "T", "s"))
				})
				var wg sync.WaitGroup
				work := func(n int, fn func(s *docstore.Store, i int) error) {
					other := open(round%3 == 2)
					wg.Go(func() {
						for i := range n {
							if err := fn(other, i); err != nil && !errors.Is(err, docstore.ErrNotFound) && !errors.Is(err, docstore.ErrExists) && !errors.Is(err, docstore.ErrOperation) {
								t.Errorf("%v", err)
							}
						}
					})
				}
				for w := range 3 {
					work(20, func(s *docstore.Store, i int) error {
						return s.Update(ctx, func(tx *docstore.Tx) error {
							return tx.Create(ctx, docstore.Path(fmt.Sprintf("/c/%d-%d", w, i)), "T", props{"n": i % 4, "s": fmt.Sprint("text", i)})
						})
					})
				}
				work(6, func(s *docstore.Store, i int) error {
					return s.Rebuild(ctx, []docstore.Path{"/c/i", "/c/k", "/i"}[i%3], nil)
				})
				work(6, func(s *docstore.Store, i int) error {
					from, to := docstore.Path("/c"), docstore.Path("/d")
					if i%2 == 1 {
						from, to = to, from
					}
					return s.Update(ctx, func(tx *docstore.Tx) error { return tx.Move(ctx, from, to) })
				})
				work(3, func(s *docstore.Store, i int) error { return s.Delete(ctx, "/c", true) })
				wg.Wait()
				checked(t, s)
				for _, p := range []docstore.Path{"/c", "/d", "/i"} {
					if err := s.Delete(ctx, p, true); err != nil && !errors.Is(err, docstore.ErrNotFound) {
						t.Error(err)
					}
				}
				if keys, err := docstore.Keys(ctx, s); err != nil || len(keys) > 1 {
					t.Fatalf("%q %v", keys, err)
				}
			}
		})
	}
}

func TestHostileBounds(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	seg := func(n int, c string) string { return "/" + strings.Repeat(c, n-1) }
	cat, idx := docstore.Path(seg(2000, "k")), docstore.Path(seg(300, "i"))
	catl := docstore.Path("/" + strings.Repeat(":", 666)) // 1999 in keys
	label := strings.Repeat(":", 200)
	doc := docstore.Path(seg(2000, "d"))
	group := strings.Repeat("g", 1000)
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.CreateCategory(ctx, cat, label, "true"), tx.CreateCatalogue(ctx, catl, label, "g"), tx.CreateIndex(ctx, idx, label, "s"),
			tx.Create(ctx, doc, label, props{"g": group, "s": strings.Repeat("x", 1<<20-2000)}))
	})
	checked(t, s)
	must(t, s.View(ctx, func(tx *docstore.Tx) error {
		for _, p := range []docstore.Path{cat, catl, catl.Child(group), idx.Child("*xxxx*")} {
			if got := list(t, tx.Members(ctx, p)); len(got) != 1 {
				t.Errorf("%.20s: %d", p, len(got))
			}
		}
		for _, p := range []docstore.Path{cat.Child(string(doc)), catl.Child(group).Child(string(doc)), idx.Child("*xxx").Child(string(doc))} {
			if e, err := tx.Entity(ctx, p); err != nil || e.Path != doc {
				t.Errorf("%.20s: %v", p, err)
			}
		}
		return nil
	}))
	all := dump(t, s)
	c := open(t, nil)
	must(t, c.Import(ctx, pairs(all)))
	sameDumps(t, dump(t, c), all)
	checked(t, c)
}

// TestHostileImportRest: an index that can't be built doesn't keep an import from building the others.
func TestHostileImportRest(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	err := s.Import(ctx, pairs([]docstore.Pair{{Key: "children:/", Value: encoded([]string{"a", "d", "z"})}, {Key: "typeidx:T", Value: encoded([]string{"/d"})},
		{Key: "entity:/d", Value: pair(int64(1), "T")}, {Key: "props:/d", Value: encoded(map[string]any{"s": strings.Repeat("a", 600_000)})},
		{Key: "entity:/a", Value: pair(int64(5), nil)}, {Key: "config:/a", Value: pair("T", "s + s")},
		{Key: "entity:/z", Value: pair(int64(5), nil)}, {Key: "config:/z", Value: pair("T", "s")}}))
	if !errors.Is(err, docstore.ErrTooLarge) {
		t.Errorf("the import is %v", err)
	}
	must(t, s.View(ctx, func(tx *docstore.Tx) error {
		if e, err := tx.Entity(ctx, "/z"); err != nil || e.State != docstore.StateReadable {
			t.Errorf("the other index is %v, %v", e, err)
		}
		return nil
	}))
}

// TestHostileAlternatives: alternatives that no document has rule out all of them, without a look at their texts.
func TestHostileAlternatives(t *testing.T) {
	ctx := t.Context()
	e := faultkv.New(memkv.New())
	s, err := docstore.Open(ctx, e, "c", nil)
	must(t, err)
	update(t, s, func(tx *docstore.Tx) error { return tx.CreateIndex(ctx, "/i", "T", "s") })
	for b := range 3 {
		update(t, s, func(tx *docstore.Tx) error {
			for i := range 600 {
				if err := tx.Create(ctx, docstore.Path(fmt.Sprintf("/%d-%d", b, i)), "T", props{"s": fmt.Sprint("common text abc ", i)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	scans := func(pattern string) int64 {
		e.Reset()
		must(t, s.View(ctx, func(tx *docstore.Tx) error {
			_, err := tx.Search(ctx, "/i", pattern, &docstore.SearchOptions{Regexp: true})
			return err
		}))
		return e.Counts().Scans
	}
	if one, two := scans("qqqq.*abc"), scans("(qqqq|zzzz).*abc"); two > one+3 {
		t.Errorf("%d scans, and %d with an alternative", one, two)
	}
}
