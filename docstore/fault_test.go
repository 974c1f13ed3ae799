package docstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A step is a part of what the tests of faults and crashes do.
type step struct {
	name string
	do   func(ctx context.Context, s *docstore.Store) error
	// parts says that it takes several commits, and can be done again when some of them landed.
	parts bool
}

func inTx(name string, fn func(ctx context.Context, tx *docstore.Tx) error) step {
	return step{name: name, do: func(ctx context.Context, s *docstore.Store) error {
		return s.Update(ctx, func(tx *docstore.Tx) error { return fn(ctx, tx) })
	}}
}

func inParts(name string, fn func(ctx context.Context, s *docstore.Store) error) step {
	return step{name, fn, true}
}

// someDocs creates documents n to n+7 of the type T.
func someDocs(n int) step {
	return inTx(fmt.Sprintf("documents from %d", n), func(ctx context.Context, tx *docstore.Tx) error {
		for i := n; i < n+8; i++ {
			p := docstore.Path(fmt.Sprintf("/docs/%02d", i))
			if err := tx.Create(ctx, p, "T", docstore.Properties{"n": i, "g": fmt.Sprint(i % 3), "s": fmt.Sprintf("text %d of all", i)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// script is what the tests of faults and crashes do, with bounds so small that each of them is met.
func script() []step {
	legacy := []docstore.Pair{}
	for _, p := range []struct {
		key  string
		vals []any
	}{{"entity:/docs", []any{int64(4), nil}}, {"entity:/all", []any{int64(2), nil}}, {"config:/all", []any{"T", "n >= 0"}}} {
		legacy = append(legacy, docstore.Pair{Key: p.key, Value: pair(p.vals[0], p.vals[1])})
	}
	var docs, names []string
	for i := range 12 {
		p := fmt.Sprintf("/docs/%02d", i)
		docs, names = append(docs, p), append(names, p[6:])
		legacy = append(legacy, docstore.Pair{Key: "entity:" + p, Value: pair(int64(1), "T")},
			docstore.Pair{Key: "props:" + p, Value: encoded(map[string]any{"n": int64(i), "g": fmt.Sprint(i % 3), "s": fmt.Sprintf("text %d of all", i)})})
	}
	legacy = append(legacy, docstore.Pair{Key: "children:/", Value: encoded([]string{"docs", "all"})}, docstore.Pair{Key: "children:/docs", Value: encoded(names)},
		docstore.Pair{Key: "typeidx:T", Value: encoded(docs)}, docstore.Pair{Key: "cat:/all:members", Value: encoded(docs)})
	return []step{
		inParts("import", func(ctx context.Context, s *docstore.Store) error { return s.Import(ctx, pairs(legacy)) }),
		inTx("a category and more of the documents", func(ctx context.Context, tx *docstore.Tx) error {
			return errors.Join(tx.CreateCategory(ctx, "/even", "T", "n % 2 == 0"), tx.CreateCatalogue(ctx, "/by-g", "T", "g"), tx.CreateIndex(ctx, "/find", "T", "s"))
		}),
		inParts("builds", func(ctx context.Context, s *docstore.Store) error {
			return errors.Join(s.Build(ctx, "/even", nil), s.Build(ctx, "/by-g", nil), s.Build(ctx, "/find", nil))
		}),
		{"a document more, which takes arrays apart", someDocs(12).do, true},
		inTx("changes", func(ctx context.Context, tx *docstore.Tx) error {
			return errors.Join(tx.SetProperty(ctx, "/docs/03", "n", 4), tx.SetProperty(ctx, "/docs/04", "g", "other"), tx.SetProperty(ctx, "/docs/05", "s", "another"),
				tx.SetLabel(ctx, "/docs/06", "U"), tx.Move(ctx, "/docs/07", "/docs/x"), tx.Delete(ctx, "/docs/08", false))
		}),
		inTx("a long document", func(ctx context.Context, tx *docstore.Tx) error {
			return tx.Create(ctx, "/long", "T", docstore.Properties{"n": 1, "x": strings.Repeat("long ", 18_500)})
		}),
		inParts("a rebuild", func(ctx context.Context, s *docstore.Store) error {
			return errors.Join(s.Rebuild(ctx, "/find", nil), s.Rebuild(ctx, "/by-g", nil))
		}),
		inParts("a deletion of all", func(ctx context.Context, s *docstore.Store) error {
			if err := s.Delete(ctx, "/docs", true); err != nil && !errors.Is(err, docstore.ErrNotFound) {
				return err
			}
			return nil
		}),
		inTx("the rest", func(ctx context.Context, tx *docstore.Tx) error {
			return errors.Join(tx.Delete(ctx, "/even", false), tx.Delete(ctx, "/by-g", false), tx.Delete(ctx, "/find", false), tx.Delete(ctx, "/all", false),
				tx.Delete(ctx, "/long", false))
		}),
	}
}

// playing is a run of the script, beside the dumps that it should have after each step.
type playing struct {
	*testing.T
	s     *docstore.Store
	steps []step
	next  int
	want  [][]docstore.Pair
}

func play(t *testing.T, e kv.Engine, want [][]docstore.Pair) *playing {
	t.Helper()
	p := &playing{T: t, steps: script(), want: want}
	p.reopen(e)
	return p
}

func (p *playing) reopen(e kv.Engine) {
	p.Helper()
	s, err := docstore.Open(p.Context(), e, "faults", nil)
	must(p, err)
	docstore.Small(s)
	p.s = s
}

// run does what is left of the script until a step fails.
func (p *playing) run() error {
	for ; p.next < len(p.steps); p.next++ {
		if err := p.steps[p.next].do(p.Context(), p.s); err != nil {
			return fmt.Errorf("%s: %w", p.steps[p.next].name, err)
		}
	}
	return nil
}

// state returns what the store has, in order, and fails if that doesn't fit together.
func (p *playing) state() []docstore.Pair {
	p.Helper()
	problems, err := p.s.Check(p.Context())
	if err != nil || len(problems) > 0 {
		p.Fatalf("step %d: check: %v, %s", p.next, err, strings.Join(problems, "\n"))
	}
	return inOrder(p, dump(p, p.s))
}

// settle looks at the store after a step failed, which may be applied all the same, and goes on.
func (p *playing) settle(mayBeApplied bool) {
	p.Helper()
	if !p.steps[p.next].parts {
		got := p.state()
		switch {
		case p.next > 0 && equalDumps(got, p.want[p.next-1]):
		case mayBeApplied && equalDumps(got, p.want[p.next]):
			p.next++
		default:
			p.Fatalf("%s has left something between before and after", p.steps[p.next].name)
		}
	}
	if err := p.run(); err != nil && !errors.Is(err, docstore.ErrExists) {
		p.Fatalf("going on: %v", err)
	} else if err != nil { // what takes several commits ended with one that was applied
		if p.next++; p.run() != nil {
			p.Fatalf("going on: %v", err)
		}
	}
	sameDumps(p, p.state(), p.want[len(p.want)-1])
}

func equalDumps(a, b []docstore.Pair) bool {
	return slices.EqualFunc(a, b, func(a, b docstore.Pair) bool { return a.Key == b.Key && string(a.Value) == string(b.Value) })
}

// played returns the dumps after each step of a run without faults.
func played(t *testing.T) (want [][]docstore.Pair) {
	t.Helper()
	p := play(t, memkv.New(), nil)
	for ; p.next < len(p.steps); p.next++ {
		if err := p.steps[p.next].do(t.Context(), p.s); err != nil {
			t.Fatalf("%s: %v", p.steps[p.next].name, err)
		}
		want = append(want, p.state())
	}
	if keys, err := docstore.Keys(t.Context(), p.s); err != nil || len(keys) != 1 {
		t.Fatalf("when all is deleted the store has the rows %q, %v", keys, err)
	}
	return want
}

// TestFaults lets each operation of the engine fail once; in the quick form only some of the reads, and in the short one of the commits.
func TestFaults(t *testing.T) {
	want := played(t)
	for name, point := range map[string]faultkv.Point{"get": faultkv.BeforeGet, "scan": faultkv.BeforeScan, "entry": faultkv.BeforeEntry,
		"attempt": faultkv.BeforeAttempt, "commit": faultkv.BeforeCommit, "acknowledgement": faultkv.AfterCommit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stride := 1
			if point == faultkv.BeforeGet || point == faultkv.BeforeScan || point == faultkv.BeforeEntry {
				stride = testkit.Pick(173, 97, 1)
			} else {
				stride = testkit.Pick(7, 1, 1)
			}
			for n := 0; ; n += stride {
				e := faultkv.New(memkv.New())
				p := play(t, e, want)
				f := e.Fail(faultkv.Rule{Point: point, Skip: n})
				err := p.run()
				f.Remove()
				if f.Hits() == 0 {
					if err != nil {
						t.Fatal(err)
					}
					if n < 20 {
						t.Errorf("%d operations", n)
					}
					break
				}
				// What looks after text indexes after a commit logs its errors, and does it the next time.
				if err != nil && !errors.Is(err, faultkv.ErrInjected) {
					t.Fatalf("operation %d of the kind fails: %v", n, err)
				}
				if err == nil {
					sameDumps(t, p.state(), want[len(want)-1])
					continue
				}
				p.settle(point == faultkv.AfterCommit)
			}
		})
	}
}

// TestCrash has the process die after each commit.
func TestCrash(t *testing.T) {
	want := played(t)
	for n := 0; ; n++ {
		e := faultkv.New(memkv.New())
		p := play(t, e, want)
		e.Tear(n)
		err := p.run()
		e.Heal()
		if err == nil {
			if n < len(p.steps)-1 {
				t.Errorf("%d commits", n)
			}
			return
		}
		if !errors.Is(err, faultkv.ErrTorn) {
			t.Fatalf("after %d commits: %v", n, err)
		}
		p.reopen(e)
		p.settle(false)
	}
}
