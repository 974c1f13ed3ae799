package docstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// TestFailureSaid: a method whose read fails says so, and doesn't take what it couldn't read for missing. All that follow
// say the same.
func TestFailureSaid(t *testing.T) {
	ctx := t.Context()
	e := faultkv.New(memkv.New())
	s, err := docstore.Open(ctx, e, "failure", nil)
	must(t, err)
	update(t, s, func(tx *docstore.Tx) error { return tx.Create(ctx, "/d", "T", props{"n": 1}) })
	for name, do := range map[string]func(tx *docstore.Tx) error{
		"exists": func(tx *docstore.Tx) error { _, err := tx.Exists(ctx, "/d"); return err },
		"entity": func(tx *docstore.Tx) error { _, err := tx.Entity(ctx, "/d"); return err },
		"create": func(tx *docstore.Tx) error { return tx.Create(ctx, "/d", "T", nil) },
		"delete": func(tx *docstore.Tx) error { return tx.Delete(ctx, "/d", false) },
		"find": func(tx *docstore.Tx) error {
			for _, err := range tx.Find(ctx, "T", "", nil) {
				return err
			}
			return nil
		},
	} {
		err := s.Update(ctx, func(tx *docstore.Tx) error {
			for _, point := range []faultkv.Point{faultkv.BeforeGet, faultkv.BeforeScan} {
				f := e.Fail(faultkv.Rule{Point: point})
				defer f.Remove()
			}
			if err := do(tx); !errors.Is(err, faultkv.ErrInjected) || !errors.Is(tx.Err(), faultkv.ErrInjected) {
				t.Errorf("%s: got %v, and the transaction has %v", name, err, tx.Err())
			}
			return nil
		})
		if !errors.Is(err, faultkv.ErrInjected) {
			t.Errorf("%s: the update is %v", name, err)
		}
	}
	checked(t, s)
}

// TestFailureEnds: what comes after a failure isn't written, even if the caller of Begin commits all the same.
func TestFailureEnds(t *testing.T) {
	ctx := t.Context()
	refuse := errors.New("refused")
	s := open(t, &docstore.Options{Hooks: []docstore.Hook{func(_ context.Context, _ *docstore.Tx, e *docstore.Event) error {
		if e.Path == "/first" {
			return refuse
		}
		return nil
	}}})
	must(t, s.DB().Update(ctx, func(t2 *txn.Tx) error {
		tx, err := s.Begin(ctx, t2)
		must(t, err)
		for _, p := range []docstore.Path{"/first", "/second"} {
			if err := tx.CreateContainer(ctx, p); !errors.Is(err, refuse) {
				t.Errorf("%s: %v", p, err)
			}
		}
		return nil
	}))
	keys, err := docstore.Keys(ctx, s)
	if err != nil || slices.Contains(keys, "entity:/second") || !slices.Contains(keys, "entity:/first") {
		t.Errorf("stored are %q, %v", keys, err)
	}
}

// TestLeft: a document that changed or was deleted since a segment was made of it is not found by its old text.
func TestLeft(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	docstore.Small(s)
	update(t, s, func(tx *docstore.Tx) error { return tx.CreateIndex(ctx, "/idx", "T", "s") })
	for i := range 20 {
		update(t, s, func(tx *docstore.Tx) error {
			return tx.Create(ctx, docstore.Path(fmt.Sprintf("/%02d", i)), "T", props{"s": fmt.Sprintf("text %d", i)})
		})
	}
	if rowsWith(t, s, ":txt\x00") < 15 {
		t.Fatal("the documents are not in segments")
	}
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.SetProperty(ctx, "/03", "s", "another"), tx.Delete(ctx, "/07", false))
	})
	must(t, s.View(ctx, func(tx *docstore.Tx) error {
		for pattern, want := range map[string]int{"*tex*": 18, "*text*": 18, "text 3": 0, "text 7": 0, "text 4": 1, "anoth*": 1} {
			for _, ranked := range []bool{false, true} {
				m, err := tx.Search(ctx, "/idx", pattern, &docstore.SearchOptions{Ranked: ranked})
				if err != nil || len(m) != want {
					t.Errorf("%s: found %v, %v, want %d", pattern, m, err, want)
				}
			}
		}
		return nil
	}))
	checked(t, s)
}

// TestTakenApart: a large array is taken apart in transactions of some members each, before the change that needs it.
func TestTakenApart(t *testing.T) {
	ctx := t.Context()
	e := faultkv.New(memkv.New())
	s, err := docstore.Open(ctx, e, "apart", nil)
	must(t, err)
	docstore.Small(s)
	must(t, s.Import(ctx, pairs(legacy())))
	e.Reset()
	update(t, s, func(tx *docstore.Tx) error { return tx.SetLabel(ctx, "/1/old3", "U") })
	if got := e.Counts().Commits; got != 1+8 { // 36 documents of the type, five at a time
		t.Errorf("%d commits", got)
	}
	e.Reset()
	update(t, s, func(tx *docstore.Tx) error { return tx.SetLabel(ctx, "/1/old4", "U") })
	if got := e.Counts().Commits; got != 1 {
		t.Errorf("%d commits the second time", got)
	}
	checked(t, s)
}
