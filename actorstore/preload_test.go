package actorstore_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// preloadStore opens a store on eng, and an actor with the keys k00 to k29; k10 has more
// than a row, k20 is empty.
func preloadStore(t *testing.T, eng kv.Engine, cacheBytes int64) (*actorstore.Store, *actorstore.Actor) {
	t.Helper()
	s, err := actorstore.Open(ctx, eng, &actorstore.Options{Now: clock, CacheBytes: cacheBytes})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	a := openActor(t, s)
	var b batch.Batch
	for i := range 30 {
		value := fmt.Appendf(nil, "v%d", i)
		switch i {
		case 10:
			value = make([]byte, layout.RowSize+1)
		case 20:
			value = nil
		}
		b.Put(user(fmt.Sprintf("k%02d", i)), value)
	}
	must(t, a.Commit(ctx, &b))
	must(t, a.Close())
	must(t, s.Close())
	s, err = actorstore.Open(ctx, eng, &actorstore.Options{Now: clock, CacheBytes: cacheBytes}) // with nothing in memory
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s, openActor(t, s)
}

// keysIn is the range of user keys [from, to).
func keysIn(from, to string) actorstore.KeyRange { return actorstore.KeyRange{user(from), user(to)} }

func TestPreload(t *testing.T) {
	ranges := []actorstore.KeyRange{keysIn("k03", "k05"), keysIn("k10", "k12"), keysIn("k19", "k21"), keysIn("x", "y")}
	all := []string{"k03", "k04", "k10", "k11", "k19", "k20"}
	for name, tt := range map[string]struct {
		eng  kv.Engine
		want []string
		pins int64
	}{
		"an engine that can":       {engines.Far(memkv.New()), all, 0},
		"snapshots that can":       {struct{ kv.Engine }{engines.Far(memkv.New())}, all, 1},
		"nothing can":              {engines.OneRange(engines.Far(memkv.New())), all[:2], 1},
		"an engine that isn't far": {memkv.New(), all, 0},
	} {
		t.Run(name, func(t *testing.T) {
			eng := faultkv.New(tt.eng)
			_, a := preloadStore(t, eng, 0)
			eng.Reset()
			var got []string
			must(t, a.Preload(ctx, ranges, func(e actorstore.Entry) error {
				got = append(got, string(e.Key[1:]))
				return nil
			}))
			if c := eng.Counts(); !reflect.DeepEqual(got, tt.want) || c.Scans != 1 || c.Gets != 0 || c.Snapshots != tt.pins {
				t.Errorf("got %v, want %v; %+v", got, tt.want, c)
			}
			snap, err := a.PageSnapshot(ctx)
			must(t, err)
			defer snap.Close()
			eng.Reset()
			for i := range 30 {
				key := fmt.Sprintf("k%02d", i)
				want := a.Caches() && i != 10
				found := false
				for _, k := range tt.want {
					found = found || k == key
				}
				if snap.Cached(user(key)) != (want && found) {
					t.Errorf("%s in the cache: %v", key, snap.Cached(user(key)))
				}
			}
			if c := eng.Counts(); c.Gets+c.Scans+c.Snapshots > 0 {
				t.Errorf("asking what is cached: %+v", c)
			}
			for _, k := range []string{"k03", "k04"} {
				if v, _ := get(t, snap, user(k)); v != "v"+k[2:] {
					t.Errorf("%s is %q", k, v)
				}
			}
			if c := eng.Counts(); a.Caches() && c.Gets+c.Scans > 0 {
				t.Errorf("reading what is cached: %+v", c)
			}
		})
	}
}

// TestPreloadOld keeps nothing that a commit has replaced meanwhile.
func TestPreloadOld(t *testing.T) {
	eng := faultkv.New(engines.Far(memkv.New()))
	_, a := preloadStore(t, eng, 0)
	must(t, a.Preload(ctx, []actorstore.KeyRange{keysIn("k00", "k09"), keysIn("k11", "k19")}, func(e actorstore.Entry) error {
		if string(e.Key) == string(user("k05")) {
			return a.Put(ctx, user("k03"), []byte("new"))
		}
		return nil
	}))
	if v, _ := get(t, a, user("k03")); v != "new" {
		t.Errorf("k03 is %q", v)
	}
	snap, err := a.PageSnapshot(ctx)
	must(t, err)
	defer snap.Close()
	must(t, a.Put(ctx, user("k03"), []byte("newer")))
	if !snap.Cached(user("k03")) {
		t.Error("the old value of k03 isn't in memory")
	}
	if v, _ := get(t, snap, user("k03")); v != "new" {
		t.Errorf("k03 was %q", v)
	}
}

func TestPreloadFails(t *testing.T) {
	eng := faultkv.New(engines.Far(memkv.New()))
	s, a := preloadStore(t, eng, 0)
	ranges := []actorstore.KeyRange{keysIn("k00", "k05"), keysIn("k11", "k19")}
	mine := errors.New("mine")
	if err := a.Preload(ctx, ranges, func(actorstore.Entry) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("got %v", err)
	}
	eng.Fail(faultkv.Rule{Point: faultkv.BeforeEntry, Skip: 12})
	if err := a.Preload(ctx, ranges, nil); !errors.Is(err, faultkv.ErrInjected) {
		t.Errorf("got %v", err)
	}
	eng.Heal()
	must(t, a.Preload(ctx, nil, nil))
	must(t, a.Preload(ctx, ranges, nil))
	v, err := s.View(ctx, testID)
	must(t, err)
	defer v.Close()
	n := 0
	must(t, v.Preload(ctx, ranges, func(actorstore.Entry) error { n++; return nil }))
	if n != 13 || !v.Far() || v.Hints() != nil {
		t.Errorf("%d entries, far %v, hints %x", n, v.Far(), v.Hints())
	}
	eng.Fail(faultkv.Rule{Point: faultkv.BeforeScan})
	if err := v.Preload(ctx, ranges, nil); !errors.Is(err, faultkv.ErrInjected) {
		t.Errorf("got %v", err)
	}
	must(t, a.Close())
	if err := a.Preload(ctx, ranges, nil); !errors.Is(err, actorstore.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// TestSurveyFar surveys snapshots that the engine doesn't know of.
func TestSurveyFar(t *testing.T) {
	eng := faultkv.New(engines.Far(memkv.New()))
	_, a := preloadStore(t, eng, 0)
	snap, err := a.Snapshot(ctx)
	must(t, err)
	defer snap.Close()
	must(t, a.Delete(ctx, user("k07")))
	n := 0
	for _, err := range snap.Survey(ctx, nil, nil) {
		must(t, err)
		n++
	}
	if n != 30 {
		t.Errorf("%d keys", n)
	}
	pages, err := a.PageSnapshot(ctx)
	must(t, err)
	defer pages.Close()
	for _, err := range pages.Survey(ctx, nil, nil) {
		if !errors.Is(err, actorstore.ErrPagesOnly) {
			t.Errorf("got %v", err)
		}
	}
}
