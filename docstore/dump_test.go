package docstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/docstore"
)

func TestEmptySets(t *testing.T) {
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

func TestNoProps(t *testing.T) {
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

func TestDuplicates(t *testing.T) {
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

// TestNoConfig: a category without its expression could neither be read nor deleted.
func TestNoConfig(t *testing.T) {
	s := open(t, nil)
	err := s.Import(t.Context(), pairs([]docstore.Pair{{Key: "children:/", Value: encoded([]string{"k"})}, {Key: "entity:/k", Value: pair(int64(2), nil)}}))
	if !errors.Is(err, docstore.ErrCorrupt) {
		t.Errorf("it is imported with %v", err)
	}
}

// TestNoEntity: a container that lists what isn't there can be deleted.
func TestNoEntity(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	must(t, s.Import(ctx, pairs([]docstore.Pair{{Key: "children:/", Value: encoded([]string{"k"})}, {Key: "entity:/k", Value: pair(int64(4), nil)}, {Key: "children:/k", Value: encoded([]string{"gone"})}})))
	must(t, s.Delete(ctx, "/k", true))
	checked(t, s)
}

// TestEmptyLabel: a document without a type would be dumped so that the dump is refused.
func TestEmptyLabel(t *testing.T) {
	s := open(t, nil)
	err := s.Import(t.Context(), pairs([]docstore.Pair{{Key: "children:/", Value: encoded([]string{"k"})}, {Key: "entity:/k", Value: pair(int64(1), nil)}, {Key: "props:/k", Value: encoded(map[string]any{})}}))
	if !errors.Is(err, docstore.ErrCorrupt) {
		t.Errorf("it is imported with %v", err)
	}
}

func TestAmbiguousKeys(t *testing.T) {
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

// TestRebuildDisabled: while what was disabled is built anew, no query goes by what was imported.
func TestRebuildDisabled(t *testing.T) {
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

// TestImportRest: an index that can't be built doesn't keep an import from building the others.
func TestImportRest(t *testing.T) {
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
