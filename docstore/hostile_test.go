package docstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/docstore"
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
