package docstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

// TestConcurrent lets writers change documents, each those of one container, while others build and rebuild a category, a
// catalogue and a text index of them, and takes the arrays of an imported store apart. In the end everything follows from the
// documents, and a rebuild changes nothing.
func TestConcurrent(t *testing.T) {
	for name, open := range map[string]func(t testing.TB) kv.Engine{"memkv": memory, "pebblekv": disk, "pgkv": postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := testkit.Pick(20, 60, 600)
			if name == "pgkv" {
				n = testkit.Pick(5, 12, 100)
			}
			concurrent(t, open(t), n)
		})
	}
}

// legacy returns a dump of three containers with twelve documents each, whose sets are arrays.
func legacy() (all []docstore.Pair) {
	var docs, roots []string
	for c := range 3 {
		var names []string
		root := fmt.Sprintf("/%d", c)
		for i := range 12 {
			names = append(names, fmt.Sprint("old", i))
			p := fmt.Sprintf("%s/old%d", root, i)
			docs = append(docs, p)
			all = append(all, docstore.Pair{Key: "entity:" + p, Value: pair(int64(1), "T")}, docstore.Pair{Key: "props:" + p, Value: encoded(map[string]any{"n": int64(i), "s": "old text"})})
		}
		roots = append(roots, root[1:])
		all = append(all, docstore.Pair{Key: "entity:" + root, Value: pair(int64(4), nil)}, docstore.Pair{Key: "children:" + root, Value: encoded(names)})
	}
	return append(all, docstore.Pair{Key: "children:/", Value: encoded(roots)}, docstore.Pair{Key: "typeidx:T", Value: encoded(docs)})
}

// write creates, changes or deletes a document of a container.
func write(ctx context.Context, s *docstore.Store, rnd *rand.Rand, container int) error {
	p := docstore.Path(fmt.Sprintf("/%d/%d", container, rnd.IntN(10)))
	return s.Update(ctx, func(tx *docstore.Tx) error {
		doc := props{"n": rnd.IntN(6), "g": rnd.IntN(3), "s": fmt.Sprintf("text %d of a writer", rnd.IntN(100))}
		err := tx.Create(ctx, p, "T", doc)
		if !errors.Is(err, docstore.ErrExists) {
			return err
		}
		switch rnd.IntN(5) {
		case 0:
			return tx.Delete(ctx, p, false)
		case 1:
			return tx.SetLabel(ctx, p, []string{"T", "U"}[rnd.IntN(2)])
		}
		return tx.SetProperties(ctx, p, doc)
	})
}

func concurrent(t *testing.T, e kv.Engine, n int) {
	ctx := t.Context()
	open := func() *docstore.Store {
		s, err := docstore.Open(ctx, e, "concurrent", nil)
		must(t, err)
		docstore.Small(s)
		return s
	}
	s := open()
	must(t, s.Import(ctx, pairs(legacy())))

	var writers, builders sync.WaitGroup
	fail := func(what string, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for c := range 3 {
		writers.Go(func() {
			s, rnd := open(), rand.New(rand.NewPCG(uint64(c), 0))
			for range n {
				fail("write", write(ctx, s, rnd, c))
			}
		})
	}
	done := make(chan struct{})
	for i, create := range []func(tx *docstore.Tx) error{
		func(tx *docstore.Tx) error { return tx.CreateCategory(ctx, "/cat", "T", "n > 2") },
		func(tx *docstore.Tx) error { return tx.CreateCatalogue(ctx, "/catl", "T", "g") },
		func(tx *docstore.Tx) error { return tx.CreateIndex(ctx, "/idx", "T", "s") },
	} {
		p := docstore.Path([]string{"/cat", "/catl", "/idx"}[i])
		builders.Go(func() {
			s := open()
			fail("create", s.Update(ctx, create))
			for {
				// Another process goes on with what was cut off.
				fail("build", open().Build(ctx, p, nil))
				select {
				case <-done:
					return
				default:
					fail("rebuild", s.Rebuild(ctx, p, nil))
				}
			}
		})
	}
	writers.Wait()
	close(done)
	builders.Wait()
	checked(t, s)
	before := dump(t, s)
	for _, p := range []docstore.Path{"/cat", "/catl", "/idx"} {
		must(t, s.Rebuild(ctx, p, nil))
	}
	sameDumps(t, inOrder(t, dump(t, s)), inOrder(t, before))
}

// TestCutOff: a build that ends anywhere goes on later, with changes in between, and a search of what isn't built says so, or
// reads the documents.
func TestCutOff(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	docstore.Small(s)
	for i := range 20 {
		update(t, s, func(tx *docstore.Tx) error {
			return tx.Create(ctx, docstore.Path(fmt.Sprintf("/%02d", i)), "T", props{"s": fmt.Sprintf("text %d", i)})
		})
	}
	update(t, s, func(tx *docstore.Tx) error { return tx.CreateIndex(ctx, "/idx", "T", "s") })
	search := func(opts *docstore.SearchOptions) (m []docstore.Match, err error) {
		err = s.View(ctx, func(tx *docstore.Tx) (err error) {
			m, err = tx.Search(ctx, "/idx", "*text 1*", opts)
			return err
		})
		return m, err
	}
	if _, err := search(nil); !errors.Is(err, docstore.ErrBuilding) {
		t.Errorf("a search of what isn't built is %v", err)
	}
	if m, err := search(&docstore.SearchOptions{Scan: true}); err != nil || len(m) != 11 {
		t.Errorf("a scan finds %v, %v", m, err)
	}
	stop, seen := errors.New("stop"), 0
	for cut := true; cut; {
		cut = false
		err := func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					cut, err = true, stop
				}
			}()
			return s.Build(ctx, "/idx", &docstore.BuildOptions{Progress: func(p docstore.Progress) {
				if p.Docs <= seen {
					t.Errorf("after %d documents come %d", seen, p.Docs)
				}
				seen = p.Docs
				panic(stop) // as if the process had ended
			}})
		}()
		if err != nil && !cut {
			t.Fatal(err)
		}
		if cut {
			update(t, s, func(tx *docstore.Tx) error {
				return errors.Join(tx.SetProperty(ctx, "/01", "s", fmt.Sprint("changed ", seen)), tx.SetProperty(ctx, "/19", "s", fmt.Sprint("text 1 ", seen)))
			})
		}
	}
	if m, err := search(nil); err != nil || len(m) != 10 {
		t.Errorf("then it finds %v, %v", m, err)
	}
	checked(t, s)
}

// TestDeleteBesideWriters deletes everything beside writers, moves and builds.
func TestDeleteBesideWriters(t *testing.T) {
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
