package docstore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// counted returns a store with so many documents in one category, one group and one container, on an engine that counts.
func counted(t *testing.T, n int) (*docstore.Store, *faultkv.Engine) {
	t.Helper()
	ctx := t.Context()
	e := faultkv.New(memkv.New())
	s, err := docstore.Open(ctx, e, "counted", nil)
	must(t, err)
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.CreateContainer(ctx, "/c"), tx.CreateCategory(ctx, "/cat", "T", "n >= 0"), tx.CreateCatalogue(ctx, "/catl", "T", "g"))
	})
	for i := 0; i < n; {
		update(t, s, func(tx *docstore.Tx) error {
			for end := min(n, i+1000); i < end; i++ {
				if err := tx.Create(ctx, document(i), "T", props{"n": i, "g": "one"}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return s, e
}

func document(i int) docstore.Path { return docstore.Path(fmt.Sprintf("/c/%07d", i)) }

// TestCounts: what an operation takes doesn't depend on how many members a set has, and no value is large.
func TestCounts(t *testing.T) {
	n := testkit.Pick(500, 2_000, 100_000)
	s, e := counted(t, n)
	ctx := t.Context()
	for _, c := range []struct {
		name string
		do   func() error
		want faultkv.Counts
		ops  int64
	}{
		// meta, container and entity; the row of the registry is found by a scan.
		{"create", func() error {
			return s.Update(ctx, func(tx *docstore.Tx) error { return tx.Create(ctx, document(n), "T", props{"n": n, "g": "one"}) })
		}, faultkv.Counts{Gets: 3, Scans: 1, Attempts: 1, Commits: 1}, 6},
		// meta, entity and properties.
		{"change of a group", func() error {
			return s.Update(ctx, func(tx *docstore.Tx) error { return tx.SetProperty(ctx, document(n), "g", "two") })
		}, faultkv.Counts{Gets: 3, Scans: 1, Attempts: 1, Commits: 1}, 3},
		{"change of nothing that a set goes by", func() error {
			return s.Update(ctx, func(tx *docstore.Tx) error { return tx.SetProperty(ctx, document(n), "x", 1) })
		}, faultkv.Counts{Gets: 3, Scans: 1, Attempts: 1, Commits: 1}, 1},
		{"delete", func() error {
			return s.Update(ctx, func(tx *docstore.Tx) error { return tx.Delete(ctx, document(n), false) })
		}, faultkv.Counts{Gets: 3, Scans: 1, Attempts: 1, Commits: 1}, 6},
		{"a member by its whole path", func() error {
			return s.View(ctx, func(tx *docstore.Tx) error {
				_, err := tx.Entity(ctx, docstore.Path("/cat").Child(string(document(n/2))))
				return err
			})
		}, faultkv.Counts{Gets: 7, Attempts: 1}, 0},
		{"the groups of a catalogue", func() error {
			return s.View(ctx, func(tx *docstore.Tx) error {
				for _, err := range tx.Members(ctx, "/catl") {
					if err != nil {
						return err
					}
				}
				return nil
			})
		}, faultkv.Counts{Gets: 4, Scans: 2, Attempts: 1}, 0},
	} {
		e.Reset()
		must(t, c.do())
		got := e.Counts()
		if got.Gets != c.want.Gets || got.Scans != c.want.Scans || got.Attempts != c.want.Attempts || got.Commits != c.want.Commits || got.Ops != c.ops {
			t.Errorf("%s: got %+v, want %+v and %d operations", c.name, got, c.want, c.ops)
		}
	}
	for e, err := range e.Scan(ctx, kv.Range{}) {
		must(t, err)
		if len(e.Value) > 200 {
			t.Fatalf("a value of %d bytes", len(e.Value))
		}
	}
}

// TestConflicts: writers of different documents of one container, category, group and index don't conflict.
func TestConflicts(t *testing.T) {
	for name, open := range map[string]func(t testing.TB) kv.Engine{"memkv": memory, "pebblekv": disk, "pgkv": postgres} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			e := open(t)
			s, err := docstore.Open(ctx, e, "conflicts", nil)
			must(t, err)
			update(t, s, func(tx *docstore.Tx) error {
				return errors.Join(tx.CreateContainer(ctx, "/c"), tx.CreateCategory(ctx, "/cat", "T", "n >= 0"), tx.CreateCatalogue(ctx, "/catl", "T", "g"),
					tx.CreateIndex(ctx, "/idx", "T", "s"), tx.Create(ctx, document(0), "T", props{"n": 1, "g": "one", "s": "text"}))
			})
			doc := props{"n": 1, "g": "one", "s": "the same text"}
			for _, c := range []struct {
				name string
				a, b func(tx *docstore.Tx) error
				runs int
			}{
				{"two new documents", func(tx *docstore.Tx) error { return tx.Create(ctx, document(1), "T", doc) },
					func(tx *docstore.Tx) error { return tx.Create(ctx, document(2), "T", doc) }, 1},
				{"two changes", func(tx *docstore.Tx) error { return tx.SetProperty(ctx, document(1), "g", "two") },
					func(tx *docstore.Tx) error { return tx.SetProperty(ctx, document(2), "g", "two") }, 1},
				{"a change and a deletion", func(tx *docstore.Tx) error { return tx.SetProperty(ctx, document(1), "n", -1) },
					func(tx *docstore.Tx) error { return tx.Delete(ctx, document(2), false) }, 1},
				{"one document", func(tx *docstore.Tx) error { return tx.SetProperty(ctx, document(1), "n", 2) },
					func(tx *docstore.Tx) error { return tx.SetProperty(ctx, document(1), "n", 3) }, 2},
				{"a new catalogue and a document", func(tx *docstore.Tx) error { return tx.CreateCatalogue(ctx, "/late", "T", "n") },
					func(tx *docstore.Tx) error { return tx.Create(ctx, document(5), "T", doc) }, 2},
				{"a document and a new category", func(tx *docstore.Tx) error { return tx.SetProperty(ctx, document(1), "n", 4) },
					func(tx *docstore.Tx) error { return tx.CreateCategory(ctx, "/more", "T", "n == 4") }, 2},
			} {
				runs := 0
				must(t, s.Update(ctx, func(tx *docstore.Tx) error {
					if err := c.a(tx); err != nil {
						return err
					}
					if runs++; runs == 1 {
						return s.Update(ctx, c.b) // lands first
					}
					return nil
				}))
				if runs != c.runs {
					t.Errorf("%s: the transaction ran %d times, want %d", c.name, runs, c.runs)
				}
				checked(t, s)
			}
		})
	}
}

// TestExplain: a query reads what serves it best.
func TestExplain(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	docstore.Small(s)
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.CreateCategory(ctx, "/big", "T", "n > 1"), tx.CreateCatalogue(ctx, "/by-g", "T", "g"), tx.CreateIndex(ctx, "/by-s", "T", "s"))
	})
	for i := range 8 {
		update(t, s, func(tx *docstore.Tx) error {
			return tx.Create(ctx, docstore.Path(fmt.Sprintf("/%d", i)), "T", props{"n": i, "g": fmt.Sprint(i % 2), "s": fmt.Sprintf("number %d", i)})
		})
	}
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.CreateCategory(ctx, "/later", "T", "n == 3"), tx.CreateCatalogue(ctx, "/by-n", "T", "n"))
	})
	for _, c := range []struct {
		expression string
		params     []any
		plan       string
		found      int
	}{
		{"", nil, "all documents of the type", 8},
		{"n > 1", nil, "category /big", 6},
		{" (n>1) ", nil, "category /big", 6},
		{"n > 1 && n < 4", nil, "category /big, then the expression", 2},
		{"n > p0", []any{1}, "all documents of the type, then the expression", 6},
		{"g == '1'", nil, "catalogue /by-g, group 1, then the expression", 4},
		{"'1' == g && n > 1", nil, "catalogue /by-g, group 1, then the expression", 3},
		{"g == p0", []any{"1"}, "catalogue /by-g, group 1, then the expression", 4},
		{"g == '1' || g == '0'", nil, "all documents of the type, then the expression", 8},
		{"s.contains('number 3')", nil, "index /by-s, pattern *number 3*, then the expression", 1},
		{"s.endsWith(p0)", []any{"ber 3"}, "index /by-s, pattern *ber 3*, then the expression", 1},
		{"s.contains('3')", nil, "all documents of the type, then the expression", 1},
		{"n == 3", nil, "all documents of the type, then the expression; /by-n is still being built; /later is still being built", 1},
	} {
		opts := &docstore.FindOptions{Params: c.params}
		must(t, s.View(ctx, func(tx *docstore.Tx) error {
			plan, err := tx.Explain(ctx, "T", c.expression, opts)
			if err != nil || plan.String() != c.plan {
				t.Errorf("%s: %v, %v, want %s", c.expression, plan, err, c.plan)
			}
			found := 0
			for _, err := range tx.Find(ctx, "T", c.expression, opts) {
				must(t, err)
				found++
			}
			if found != c.found {
				t.Errorf("%s: found %d, want %d", c.expression, found, c.found)
			}
			return nil
		}))
	}
}
