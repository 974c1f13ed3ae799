package docstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/docstore/internal/element"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// must fails the test if err is not nil.
var must = testkit.Must

// open returns a new store in memory.
func open(t testing.TB, opts *docstore.Options) *docstore.Store {
	t.Helper()
	s, err := docstore.Open(t.Context(), memkv.New(), "library", opts)
	must(t, err)
	return s
}

// update runs fn in a transaction that must succeed.
func update(t testing.TB, s *docstore.Store, fn func(tx *docstore.Tx) error) {
	t.Helper()
	must(t, s.Update(t.Context(), fn))
}

// list returns the paths of a sequence.
func list(t testing.TB, seq docstore.Paths) (all []docstore.Path) {
	t.Helper()
	for p, err := range seq {
		must(t, err)
		all = append(all, p)
	}
	return all
}

// encoded returns the documented form of a value.
func encoded(v any) []byte {
	b, err := element.Append(nil, v)
	if err != nil {
		panic(err)
	}
	return b
}

// pair returns the documented form of two values.
func pair(a, b any) []byte { return append(encoded(a), encoded(b)...) }

func TestTour(t *testing.T) {
	ctx := context.Background()
	s := open(t, nil)
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(
			tx.CreateContainer(ctx, "/users"),
			tx.Create(ctx, "/users/john", "User", docstore.Properties{"name": "John Doe", "role": "user", "age": 30, "status": "active"}),
			tx.Create(ctx, "/users/jane", "User", docstore.Properties{"name": "Jane Doe", "role": "user", "age": 41, "status": "gone"}),
			tx.CreateCategory(ctx, "/active", "User", "status == 'active'"),
			tx.CreateCatalogue(ctx, "/by-role", "User", "role"),
			tx.CreateIndex(ctx, "/by-name", "User", "name"),
			tx.Create(ctx, "/users/admin", "User", docstore.Properties{"name": "Root", "role": "admin", "status": "active"}),
		)
	})
	update(t, s, func(tx *docstore.Tx) error {
		check := func(p docstore.Path, want ...docstore.Path) {
			t.Helper()
			if got := list(t, tx.Members(ctx, p)); !slices.Equal(got, want) {
				t.Errorf("%s has %v, want %v", p, got, want)
			}
		}
		check("/active", "/users/admin", "/users/john")
		check("/by-role", "/by-role/admin", "/by-role/user")
		check("/by-role/user", "/users/jane", "/users/john")
		check("/by-name/*doe", "/users/jane", "/users/john")
		check("/by-name/*o*", "/users/admin", "/users/jane", "/users/john")
		must(t, tx.SetProperty(ctx, "/active/john", "role", "admin"))
		check("/by-role/admin", "/users/admin", "/users/john")
		must(t, tx.SetProperty(ctx, "/users/john", "status", nil))
		check("/active", "/users/admin")
		must(t, tx.Delete(ctx, "/users/jane", false))
		check("/by-role", "/by-role/admin")
		for _, q := range []string{"", "role == 'admin' && age > 3", "name.contains('Doe')", "status == 'active'"} {
			plan, err := tx.Explain(ctx, "User", q, nil)
			must(t, err)
			fmt.Println(plan)
			for d, err := range tx.Find(ctx, "User", q, nil) {
				must(t, err)
				fmt.Println(d.Path, d.Properties)
			}
		}
		return nil
	})
}

// checked fails unless everything in a store fits together.
func checked(t testing.TB, s *docstore.Store) {
	t.Helper()
	if problems, err := s.Check(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("check: %v, %s", err, strings.Join(problems, "\n"))
	}
}
