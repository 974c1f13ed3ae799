package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// TestDatabase: a database is empty at first, and then what was committed, with the head of the last commit.
func TestDatabase(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		f := r.envoy("k").farOf("a")
		_, err := f.get(1)
		refused(t, err, "sqlite database was not found in this bucket branch")
		must(t, f.commit(3, 1, "one", "two", "three"))
		f.has("three - one", 3, 4, 1)
		must(t, f.commit(4, 4, "four"))
		must(t, f.commit(2, 1)) // it shrinks
		f.has("one two - -", 1, 2, 3, 4)
		must(t, f.commit(3, 3, "new"))
		f.has("one two new - -", 1, 2, 3, 4, 0)
		if f.head != 4 {
			t.Errorf("head %d", f.head)
		}
		for _, bad := range []func(*far) error{
			func(f *far) error { return f.commit(3, 3, "x", "behind the end") },
			func(f *far) error { return f.commit(3, 0, "x") },
			func(f *far) error {
				_, err := askDatabase[rp.Committed](f.p, func(n uint32) rp.ToEngine {
					return rp.Commit{ID: n, Actor: f.at.Actor, Size: 3, Fence: f.fence(), Pages: []rp.Page{page(1, "x"), page(1, "y")}}
				})
				return err
			},
			func(f *far) error {
				_, err := askDatabase[rp.Committed](f.p, func(n uint32) rp.ToEngine {
					return rp.Commit{ID: n, Actor: f.at.Actor, Size: 3, Fence: f.fence(), Pages: []rp.Page{{Number: 1, Data: []byte("short")}}}
				})
				return err
			},
		} {
			refused(t, bad(f), "invalid_request")
		}
		f.has("one two new", 1, 2, 3)
		f.sleep()
		f = f.again(f.p)
		f.has("one two new -", 1, 2, 3, 4)
		if f.head != 4 {
			t.Errorf("head %d after its sleep", f.head)
		}
		must(t, f.commit(3, 2, "2"))
		f.has("one 2 new", 1, 2, 3)
	})
}

// TestPagesMany: as many pages are read at once as fit into a message, and one more is refused, which is said.
func TestPagesMany(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		f := r.envoy("k").farOf("a")
		must(t, f.commit(1, 1, "one"))
		all := slices.Repeat([]uint32{1}, 4096)
		f.has(strings.TrimSuffix(strings.Repeat("one ", len(all)), " "), all...)
		_, err := f.get(append(all, 1)...)
		refused(t, err, "invalid_request")
		f.has("one", 1)
	})
}

// TestPagesDurable: each commit is one of the store, which waits for stable storage, and a read doesn't commit.
func TestPagesDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, memkv.New())
		s.version = rp.Envoy8
		s.begin()
		f := s.p.farOf("a")
		must(t, f.commit(3, 1, "one", "two", "three"))
		synctest.Wait()
		s.faults.Reset()
		must(t, f.commit(2, 1, "1"))
		f.has("1 two -", 1, 2, 3)
		tx, err := f.begin()
		must(t, err)
		must(t, f.segment(tx, 0, page(1, "i"), page(2, "ii")))
		must(t, f.segment(tx, 320, page(321, "cccxxi")))
		must(t, f.finish(tx, 321, 0, 320))
		if c := s.faults.Counts(); c.Commits != 2 || c.Durable != 2 || c.Syncs != 0 {
			t.Errorf("%+v", c)
		}
		f.has("i ii - cccxxi", 1, 2, 322, 321)
		s.end()
	})
}

// TestPagesFenced: what comes from another state of the actor than the one that there is changes nothing.
func TestPagesFenced(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.envoy("k")
		f := p.farOf("a")
		must(t, f.commit(1, 1, "one"))
		for _, head := range []uint64{0, 2} {
			other := *f
			other.head = head
			refused(t, other.commit(1, 1, "x"), "head_fence_mismatch")
			_, err := other.begin()
			refused(t, err, "head_fence_mismatch")
			if head > 0 {
				_, err = other.get(1)
				refused(t, err, "head_fence_mismatch")
			}
		}
		q := r.envoy("l")
		older, elsewhere, nowhere := *f, *f, *f
		older.at.Generation = 0
		elsewhere.p = q
		nowhere.at.Actor = actorstore.NewID().String()
		for _, other := range []*far{&older, &elsewhere, &nowhere} {
			refused(t, other.commit(1, 1, "x"), "actor does not exist")
			_, err := other.get(1)
			refused(t, err, "actor does not exist")
			_, err = other.begin()
			refused(t, err, "actor does not exist")
			refused(t, other.segment(2, 0, page(1, "x")), "actor does not exist")
			refused(t, other.finish(2, 1, 0), "actor does not exist")
		}
		f.has("one", 1)
		must(t, f.commit(1, 1, "two"))
		f.sleep()
		refused(t, f.commit(1, 1, "x"), "actor does not exist")
		must(t, q.ws.CloseNow())
		synctest.Wait()
		f.again(p).has("two", 1)
	})
}

// TestStages: a commit in parts is made of the parts that its end names, and of no others.
func TestStages(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		f := r.envoy("k").farOf("a")
		must(t, f.commit(1, 1, "one"))
		begin := func(want string) uint64 {
			t.Helper()
			tx, err := f.begin()
			must(t, err)
			if tx != f.head+1 {
				t.Errorf("the stage is %d, not %d", tx, f.head+1)
			}
			must(t, f.segment(tx, 0, page(1, want), page(2, want)))
			must(t, f.segment(tx, 320, page(321, want)))
			f.has("one -", 1, 2)
			return tx
		}
		tx := begin("a segment is missing")
		refused(t, f.finish(tx, 700, 0, 320, 640), "stage_not_found")
		refused(t, f.finish(tx+1, 321, 0, 320), "stage_not_found")
		refused(t, f.segment(tx+1, 640, page(641, "x")), "stage_not_found")
		f.has("one", 1)
		tx = begin("another begins")
		_, err := f.begin()
		must(t, err)
		refused(t, f.finish(tx, 321, 0, 320), "stage_not_found")
		tx = begin("a commit comes")
		must(t, f.commit(1, 1, "one"))
		refused(t, f.finish(tx, 321, 0, 320), "stage_not_found")
		refused(t, f.segment(tx, 0, page(1, "x")), "stage_not_found")
		tx = begin("it stops")
		f.sleep()
		f = f.again(f.p)
		f.has("one -", 1, 2)
		refused(t, f.finish(tx, 321, 0, 320), "stage_not_found")
		refused(t, f.segment(tx, 0, page(1, "x")), "stage_not_found")
		tx = begin("beyond the end")
		refused(t, f.finish(tx, 320, 0, 320), "invalid_request")
		tx = begin("replaced")
		must(t, f.segment(tx, 0, page(1, "1"), page(3, "3")))
		must(t, f.segment(tx, 640, page(641, "isn't named")))
		must(t, f.finish(tx, 1000, 0, 320))
		f.has("1 - 3 replaced - -", 1, 1001, 3, 321, 1001, 1002)
		f.has("  ", 2, 641, 1000)
		refused(t, f.finish(tx, 321, 0, 320), "stage_not_found")
		must(t, f.commit(1, 1))
		f.has("1 -", 1, 2)
	})
}

// TestStageLarge: a commit in parts of several thousand pages is one of the store, whatever engine that has, and one of more than 64 MiB is refused.
func TestStageLarge(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) kv.Engine{
		"memkv": func(*testing.T) kv.Engine { return memkv.New() },
		"pebblekv": func(t *testing.T) kv.Engine {
			e, err := pebblekv.Open(t.TempDir(), nil)
			must(t, err)
			return e
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := faultkv.New(open(t))
			r := &rig{TB: t, kv: f, opts: quiet()}
			r.start()
			t.Cleanup(func() { must(t, r.kv.Close()) })
			d := r.envoy("k").farOf("a")
			must(t, d.commit(1, 1, "one"))
			f.Reset()
			stage := func(segments int) (tx uint64, names []uint32, err error) {
				tx, err = d.begin()
				must(t, err)
				for i := range segments {
					first := uint32(i) * 320
					var pages []rp.Page
					for n := range uint32(320) {
						pages = append(pages, page(first+n+1, "large"))
					}
					if err := d.segment(tx, first, pages...); err != nil {
						return tx, nil, err
					}
					names = append(names, first)
				}
				return tx, names, nil
			}
			const segments = 51 // 16,320 pages, 63.75 MiB
			tx, names, err := stage(segments)
			must(t, err)
			must(t, d.finish(tx, segments*320, names...))
			if c := f.Counts(); c.Commits != 1 || c.Durable != 1 {
				t.Errorf("%+v", c)
			}
			d.has("large large large -", 1, 5000, segments*320, segments*320+1)
			_, _, err = stage(segments + 1)
			refused(t, err, "commit_too_large")
			refused(t, d.finish(tx+1, segments*320, names...), "stage_not_found")
			d.has("large", 1)
			must(t, d.commit(1, 1))
			r.close()
			r.start()
			d.p = r.reconnect("", "k", d.p)
			d.has("large -", 1, 2)
			r.close()
		})
	}
}

// TestStagesBusy: the commits in parts of all actors have so much room. One that finds none is refused, and what it had is given back.
func TestStagesBusy(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) { // which has room for 128 MiB
		p := r.envoy("k")
		part := func(f *far, tx uint64, n uint32) error {
			var pages []rp.Page
			for i := range uint32(2560) { // 10 MiB
				pages = append(pages, page(n*2560+i+1, "large"))
			}
			return f.segment(tx, n*2560, pages...)
		}
		var list []*far
		for i := range 3 {
			f := p.farOf(fmt.Sprint("a", i))
			must(t, f.commit(1, 1, "one"))
			list = append(list, f)
		}
		txs := make([]uint64, 3)
		for i, f := range list[:2] {
			tx, err := f.begin()
			must(t, err)
			txs[i] = tx
			for n := range uint32(6) {
				must(t, part(f, tx, n))
			}
			must(t, part(f, tx, 5)) // again, which takes no more
		}
		tx, err := list[2].begin()
		must(t, err)
		refused(t, part(list[2], tx, 0), "overloaded")
		refused(t, list[2].finish(tx, 2560, 0), "stage_not_found")
		must(t, list[0].finish(txs[0], 6*2560, 0, 2560, 2*2560, 3*2560, 4*2560, 5*2560))
		must(t, list[1].commit(1, 1, "other")) // which forgets its parts
		tx, err = list[2].begin()
		must(t, err)
		for n := range uint32(6) {
			must(t, part(list[2], tx, n))
		}
		list[2].sleep()
		f := list[2].again(p)
		f.has("one", 1)
		tx, err = f.begin()
		must(t, err)
		for n := range uint32(6) {
			must(t, part(f, tx, n))
		}
		must(t, f.finish(tx, 6*2560, 0, 2560, 2*2560, 3*2560, 4*2560, 5*2560))
		f.has("large", 6*2560)
	})
}

// TestPagesRefused: a commit for which the store lacks the room is as if it had never been, and the next one is made.
func TestPagesRefused(t *testing.T) {
	for want, why := range map[string]error{"quota_exceeded": errkind.ErrQuota, "no_space": errkind.ErrNoSpace} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, memkv.New())
				s.version = rp.Envoy8
				s.begin()
				f := s.p.farOf("a")
				must(t, f.commit(3, 1, "one", "two", "three"))
				s.faults.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.NotApplied(why)})
				refused(t, f.commit(2, 1, "x"), want)
				f.has("one two three", 1, 2, 3)
				must(t, f.commit(2, 2, "2"))
				f.has("one 2 -", 1, 2, 3)
				s.end()
			})
		})
	}
}

// TestEnvoyStored: what the store has of an actor's database is one of RivetKit's own, with the head beside it.
func TestEnvoyStored(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		f := r.envoy("k").farOf("a")
		must(t, f.commit(2, 1, "one", "two"))
		must(t, f.commit(2, 2, "2"))
		id, err := actorstore.ParseID(f.at.Actor)
		must(t, err)
		store, err := actorstore.Open(t.Context(), r.kv, &actorstore.Options{ReadOnly: true})
		must(t, err)
		defer func() { must(t, store.Close()) }()
		v, err := store.View(t.Context(), id)
		must(t, err)
		defer func() { must(t, v.Close()) }()
		value, err := v.Get(t.Context(), rivetstore.HeadKey(), nil)
		must(t, err)
		if head, err := rivetstore.ParseHead(value); head != 2 || err != nil {
			t.Errorf("head %d %v", head, err)
		}
		for n, want := range []string{"one", "2"} {
			value, err := v.Get(t.Context(), []byte{8, 1, 1, 0, 0, 0, 0, byte(n)}, nil)
			if must(t, err); len(value) != 4096 || textOf(value) != want {
				t.Errorf("%d bytes, %q", len(value), textOf(value))
			}
		}
	})
}
