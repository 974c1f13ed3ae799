package docstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func TestPrefixNames(t *testing.T) {
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

func TestBounds(t *testing.T) {
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
