package docstore_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// documented is each kind of key that Implexus' page on its key schema has, with the page's examples where they agree with each
// other. The kinds follow its list of type codes, which two of its examples don't. Sets are in the page's order.
func documented() []docstore.Pair {
	set := func(key string, members ...string) docstore.Pair {
		return docstore.Pair{Key: key, Value: encoded(members)}
	}
	two := func(key string, a, b any) docstore.Pair { return docstore.Pair{Key: key, Value: pair(a, b)} }
	doc := func(p, label string) docstore.Pair { return two("entity:"+p, int64(1), label) }
	props := func(p string, v map[string]any) docstore.Pair {
		return docstore.Pair{Key: "props:" + p, Value: encoded(v)}
	}
	all := []docstore.Pair{
		set("children:/", "users", "products", "docs", "categories", "catalogues", "indices"),
		set("children:/users", "john", "jane", "admin"),
		set("children:/products", "widget", "gadget", "tool"),
		set("children:/docs", "doc1", "doc2", "doc3", "doc4"),
		set("children:/categories", "active-users", "expensive-products"),
		set("children:/catalogues", "users-by-role", "products-by-category"),
		set("children:/indices", "document-search"),
		doc("/users/john", "User"), doc("/users/jane", "User"), doc("/users/admin", "User"),
		doc("/products/widget", "Product"), doc("/products/gadget", "Product"), doc("/products/tool", "Product"),
		doc("/docs/doc1", "Doc"), doc("/docs/doc2", "Doc"), doc("/docs/doc3", "Doc"), doc("/docs/doc4", "Doc"),
		props("/users/john", map[string]any{"name": "John Doe", "email": "john@example.com", "age": int64(30), "status": "active", "role": "user"}),
		props("/users/jane", map[string]any{"status": "active", "role": "user"}),
		props("/users/admin", map[string]any{"status": "away", "role": "admin"}),
		props("/products/widget", map[string]any{"price": 120.5, "category": "electronics"}),
		props("/products/gadget", map[string]any{"price": int64(101), "category": "electronics"}),
		props("/products/tool", map[string]any{"price": uint64(100), "category": "food"}),
		props("/docs/doc1", map[string]any{"body": "The quick brown fox jumps over the lazy dog"}),
		props("/docs/doc2", map[string]any{"body": "the"}),
		props("/docs/doc3", map[string]any{"body": "bathe"}),
		props("/docs/doc4", map[string]any{"body": "ing"}),
		two("config:/categories/active-users", "User", "status == 'active'"),
		two("config:/categories/expensive-products", "Product", "price > 100"),
		two("catcfg:/catalogues/users-by-role", "User", "role"),
		two("catcfg:/catalogues/products-by-category", "Product", "category"),
		two("config:/indices/document-search", "Doc", "body"),
		set("typeidx:User", "/users/john", "/users/jane", "/users/admin"),
		set("typeidx:Product", "/products/widget", "/products/gadget", "/products/tool"),
		set("typeidx:Doc", "/docs/doc1", "/docs/doc2", "/docs/doc3", "/docs/doc4"),
		set("cat:/categories/active-users:members", "/users/john", "/users/jane"),
		set("cat:/categories/expensive-products:members", "/products/widget", "/products/gadget"),
		set("catl:/catalogues/users-by-role:group:admin", "/users/admin"),
		set("catl:/catalogues/users-by-role:group:user", "/users/john", "/users/jane"),
		set("catl:/catalogues/users-by-role:keys", "admin", "user"),
		set("catl:/catalogues/products-by-category:group:electronics", "/products/widget", "/products/gadget"),
		set("catl:/catalogues/products-by-category:group:food", "/products/tool"),
		set("catl:/catalogues/products-by-category:keys", "electronics", "food"),
		{Key: "idx:/indices/document-search:doc:/docs/doc1", Value: encoded("The quick brown fox jumps over the lazy dog")},
		set("idx:/indices/document-search:tri:the", "/docs/doc1", "/docs/doc2", "/docs/doc3"),
		set("idx:/indices/document-search:tri:ing", "/docs/doc4"),
		set("idx:/indices/document-search:bi:th", " th", "ath", "the"),
		set("idx:/indices/document-search:uni:t", "th"),
	}
	for _, p := range []string{"/users", "/products", "/docs", "/categories", "/catalogues", "/indices"} {
		all = append(all, two("entity:"+p, int64(4), nil))
	}
	for i, p := range []string{"/categories/active-users", "/categories/expensive-products", "/catalogues/users-by-role", "/catalogues/products-by-category", "/indices/document-search"} {
		all = append(all, two("entity:"+p, []int64{2, 2, 3, 3, 5}[i], nil))
	}
	return all
}

// exports fails unless each pair is what the store exports.
func exports(t *testing.T, s *docstore.Store, want []docstore.Pair) {
	t.Helper()
	for _, p := range want {
		var b bytes.Buffer
		if err := s.Export(t.Context(), p.Key, &b); err != nil || !bytes.Equal(b.Bytes(), p.Value) {
			t.Errorf("%s: got %q, %v, want %q", p.Key, b.Bytes(), err, p.Value)
		}
	}
}

// TestGoldenBytes holds examples against bytes that were written by hand.
func TestGoldenBytes(t *testing.T) {
	s := open(t, nil)
	must(t, s.Import(t.Context(), pairs(documented())))
	for key, want := range map[string]string{
		"entity:/users/john":                   "02 0000000000000001 05 0000000000000004 55736572",
		"entity:/users":                        "02 0000000000000004 00",
		"children:/users":                      "07 0000000000000003 05 0000000000000004 6a6f686e 05 0000000000000004 6a616e65 05 0000000000000005 61646d696e",
		"config:/categories/active-users":      "05 0000000000000004 55736572 05 0000000000000012 737461747573203d3d2027616374697665 27",
		"catcfg:/catalogues/users-by-role":     "05 0000000000000004 55736572 05 0000000000000004 726f6c65",
		"props:/docs/doc2":                     "08 0000000000000001 0000000000000004 626f6479 05 0000000000000003 746865",
		"props:/products/widget":               "08 0000000000000002 0000000000000008 63617465676f7279 05 000000000000000b 656c656374726f6e696373 0000000000000005 7072696365 04 405e200000000000",
		"idx:/indices/document-search:tri:ing": "07 0000000000000001 05 000000000000000a 2f646f63732f646f6334",
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(want, " ", ""))
		must(t, err)
		exports(t, s, []docstore.Pair{{Key: key, Value: b}})
	}
}

// TestDocumentedKeys makes the page's examples by the API, and exports their bytes; with Compat also in its order.
func TestDocumentedKeys(t *testing.T) {
	ctx := t.Context()
	want := documented()
	for _, compat := range []bool{true, false} {
		t.Run(fmt.Sprint(compat), func(t *testing.T) {
			s := open(t, &docstore.Options{Compat: compat})
			imported := open(t, nil)
			must(t, imported.Import(ctx, pairs(want)))
			update(t, s, func(tx *docstore.Tx) error {
				var errs []error
				for _, p := range []docstore.Path{"/users", "/products", "/docs", "/categories", "/catalogues", "/indices"} {
					errs = append(errs, tx.CreateContainer(ctx, p))
				}
				errs = append(errs, tx.CreateCategory(ctx, "/categories/active-users", "User", "status == 'active'"),
					tx.CreateCategory(ctx, "/categories/expensive-products", "Product", "price > 100"),
					tx.CreateCatalogue(ctx, "/catalogues/users-by-role", "User", "role"),
					tx.CreateCatalogue(ctx, "/catalogues/products-by-category", "Product", "category"),
					tx.CreateIndex(ctx, "/indices/document-search", "Doc", "body"))
				return errors.Join(errs...)
			})
			for _, p := range []docstore.Path{"/users/john", "/users/jane", "/users/admin", "/products/widget", "/products/gadget", "/products/tool", "/docs/doc1", "/docs/doc2", "/docs/doc3", "/docs/doc4"} {
				update(t, s, func(tx *docstore.Tx) error {
					var props docstore.Properties
					var label string
					must(t, imported.View(ctx, func(tx *docstore.Tx) error {
						e, err := tx.Entity(ctx, p)
						must(t, err)
						label = e.Label
						props, err = tx.Properties(ctx, p)
						return err
					}))
					return tx.Create(ctx, p, label, props)
				})
			}
			if compat {
				exports(t, s, want)
			} else {
				exports(t, s, inOrder(t, slices.Clone(want)))
			}
			checked(t, s)
		})
	}
}

// TestLegacy opens a dump in the documented form, changes it and exports it: what wasn't touched is as it was, byte for byte, and the
// rest is what the documented form has for it.
func TestLegacy(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	dumped := append(documented(),
		docstore.Pair{Key: "catl:/catalogues/by-age:keys", Value: encoded([]string{"null", "30", "guest"})}, // one without members
		docstore.Pair{Key: "catl:/catalogues/by-age:group:30", Value: encoded([]string{"/users/john"})},
		docstore.Pair{Key: "catl:/catalogues/by-age:group:null", Value: encoded([]string{"/users/jane", "/users/admin"})},
		docstore.Pair{Key: "entity:/catalogues/by-age", Value: encoded([]any{int64(3), nil})}, // the other reading
		docstore.Pair{Key: "catcfg:/catalogues/by-age", Value: encoded([]any{"User", "age"})},
		docstore.Pair{Key: "entity:/old", Value: pair(int64(2), nil)},
		docstore.Pair{Key: "config:/old", Value: pair("User", "friends.where(f => f.age > 3)")},
		docstore.Pair{Key: "cat:/old:members", Value: encoded([]string{"/users/jane"})},
		docstore.Pair{Key: "entity:/old-index", Value: pair(int64(5), nil)},
		docstore.Pair{Key: "config:/old-index", Value: pair("User", "names.select(n => n)")},
		docstore.Pair{Key: "idx:/old-index:tri:a:b", Value: encoded([]string{"/users/jane"})},
		docstore.Pair{Key: "idx:/old-index:uni:a", Value: encoded([]string{"a:"})},
	)
	dumped[0].Value = encoded([]string{"users", "products", "docs", "categories", "catalogues", "indices", "old", "old-index"})
	dumped[5].Value = encoded([]string{"users-by-role", "products-by-category", "by-age"})
	must(t, s.Import(ctx, pairs(dumped)))
	exports(t, s, dumped)
	must(t, s.View(ctx, func(tx *docstore.Tx) error {
		for p, want := range map[docstore.Path][]docstore.Path{
			"/catalogues/by-age":      {"/catalogues/by-age/guest", "/catalogues/by-age/~i30", "/catalogues/by-age/~n"},
			"/catalogues/by-age/30":   {"/users/john"},
			"/catalogues/by-age/~i30": {"/users/john"},
			"/catalogues/by-age/~n":   {"/users/admin", "/users/jane"},
			"/old":                    {"/users/jane"},
		} {
			if got := list(t, tx.Members(ctx, p)); !slices.Equal(got, want) {
				t.Errorf("%s has %q, want %q", p, got, want)
			}
		}
		e, err := tx.Entity(ctx, "/old")
		var why *docstore.ExpressionError
		if err != nil || e.State != docstore.StateDisabled || !errors.As(e.Problem, &why) || why.Line != 1 || why.Column != 17 {
			t.Errorf("the category of another language is %+v, %v", e, err)
		}
		if _, err := tx.Search(ctx, "/old-index", "*a*", nil); !errors.Is(err, docstore.ErrDisabled) {
			t.Errorf("its index is searched with %v", err)
		}
		return nil
	}))
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.SetProperty(ctx, "/users/john", "age", 31), tx.Create(ctx, "/users/ann", "User", docstore.Properties{"status": "active", "role": "user", "age": "30"}))
	})
	changed := map[string]any{
		"props:/users/john":                         map[string]any{"name": "John Doe", "email": "john@example.com", "age": int64(31), "status": "active", "role": "user"},
		"children:/users":                           []string{"admin", "ann", "jane", "john"},
		"typeidx:User":                              []string{"/users/admin", "/users/ann", "/users/jane", "/users/john"},
		"cat:/categories/active-users:members":      []string{"/users/ann", "/users/jane", "/users/john"},
		"catl:/catalogues/users-by-role:group:user": []string{"/users/ann", "/users/jane", "/users/john"},
		"catl:/catalogues/by-age:keys":              []string{"30", "31", "null"},
		"catl:/catalogues/by-age:group:30":          []string{"/users/ann"},
	}
	for i, p := range dumped {
		if v, ok := changed[p.Key]; ok {
			dumped[i].Value = encoded(v)
		}
	}
	exports(t, s, append(dumped, docstore.Pair{Key: "catl:/catalogues/by-age:group:31", Value: encoded([]string{"/users/john"})}))
	checked(t, s)
}

// TestBadDumps refuses what is not in the documented form, with the key, and the store can be imported into again.
func TestBadDumps(t *testing.T) {
	ctx := t.Context()
	for _, p := range []docstore.Pair{
		{Key: "entity:/a", Value: []byte{2, 0}},
		{Key: "entity:a", Value: pair(int64(1), "T")},
		{Key: "entity:/a", Value: pair(int64(9), "T")},
		{Key: "props:/a", Value: encoded("text")},
		{Key: "props:/a", Value: encoded(map[string]any{})}, // no such entity
		{Key: "props:/ok", Value: encoded(map[string]any{})},
		{Key: "children:/a", Value: encoded([]string{"b"})},
		{Key: "children:/", Value: encoded([]string{"a/b"})},
		{Key: "children:/", Value: encoded([]any{int64(1)})},
		{Key: "typeidx:", Value: encoded([]string{"/a"})},
		{Key: "typeidx:T", Value: encoded([]string{"a"})},
		{Key: "config:/a", Value: pair("T", "x")}, // no such entity
		{Key: "cat:/a:members", Value: encoded([]string{"/b"})},
		{Key: "catl:/a:keys", Value: encoded([]string{"b"})},
		{Key: "something:/a", Value: encoded("b")},
		{Key: "entity", Value: encoded("b")},
	} {
		e := memkv.New()
		s, err := docstore.Open(ctx, e, "bad", nil)
		must(t, err)
		if err := s.Import(ctx, pairs([]docstore.Pair{{Key: "entity:/ok", Value: pair(int64(4), nil)}, p})); !errors.Is(err, docstore.ErrCorrupt) {
			t.Errorf("%s %q is imported with %v", p.Key, p.Value, err)
			continue
		}
		if err := s.View(ctx, func(*docstore.Tx) error { return nil }); !errors.Is(err, docstore.ErrImporting) {
			t.Errorf("after a bad dump a transaction is %v", err)
		}
		if s, err = docstore.Open(ctx, e, "bad", nil); err != nil {
			t.Fatal(err)
		}
		must(t, s.Import(ctx, pairs(documented())))
		exports(t, s, documented())
		if err := s.Import(ctx, pairs(documented())); !errors.Is(err, docstore.ErrExists) {
			t.Errorf("a second import is %v", err)
		}
	}
}

// TestOtherMembers: a category or catalogue whose imported members are others than its expression gives is disabled, is read and
// exported as it was, and can be built anew.
func TestOtherMembers(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	dumped := documented()
	for i, p := range dumped {
		switch p.Key {
		case "cat:/categories/active-users:members":
			dumped[i].Value = encoded([]string{"/users/john", "/users/admin"})
		case "catl:/catalogues/users-by-role:group:user":
			dumped[i].Value = encoded([]string{"/users/john"})
		}
	}
	must(t, s.Import(ctx, pairs(dumped)))
	exports(t, s, dumped)
	for _, p := range []docstore.Path{"/categories/active-users", "/catalogues/users-by-role"} {
		must(t, s.View(ctx, func(tx *docstore.Tx) error {
			if e, err := tx.Entity(ctx, p); err != nil || e.State != docstore.StateDisabled || e.Problem == nil {
				t.Errorf("%s is %+v, %v", p, e, err)
			}
			return nil
		}))
		must(t, s.Rebuild(ctx, p, nil))
	}
	exports(t, s, []docstore.Pair{{Key: "cat:/categories/active-users:members", Value: encoded([]string{"/users/jane", "/users/john"})},
		{Key: "catl:/catalogues/users-by-role:group:user", Value: encoded([]string{"/users/jane", "/users/john"})}})
	checked(t, s)
}
