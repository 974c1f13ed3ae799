package wake_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/wake"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A rig is a store and a Table of it, in a bubble of synctest. The Table reads the index every 5 seconds.
type rig struct {
	*testing.T
	store *actorstore.Store
	table *wake.Table
	began time.Time

	mu    sync.Mutex
	tried []string                                          // names and seconds since began
	wake  func(w *actorstore.Waking) (time.Duration, error) // what trying does; nil puts the row right
	awake map[string]bool
}

func newRig(t *testing.T, engine kv.Engine) *rig {
	store, err := actorstore.Open(t.Context(), engine, nil)
	must(t, err)
	r := &rig{T: t, store: store, began: time.Now(), awake: map[string]bool{}}
	r.table = wake.New(wake.Options{
		Store: store, Now: time.Now, Every: 5 * time.Second, Logger: slog.New(slog.DiscardHandler),
		Due: func(w *actorstore.Waking) time.Time { return w.Due(1) },
		Awake: func(w *actorstore.Waking) bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.awake[w.Name]
		},
		Wake: func(ctx context.Context, w *actorstore.Waking, failures int) time.Duration {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.tried = append(r.tried, fmt.Sprintf("%s@%d", w.Name, int(time.Since(r.began).Seconds())))
			if len(r.tried) > 1000 { // no time passes in the bubble
				r.Errorf("%s is tried again and again", w.Name)
				return time.Hour
			}
			if r.wake != nil {
				again, err := r.wake(w)
				must(t, err)
				return again * time.Duration(failures+1)
			}
			must(t, r.set(w.Name, actorstore.Wake{}))
			return -1
		},
	})
	return r
}

func (r *rig) close() {
	r.table.Close()
	r.table.Close()
	must(r, r.store.Close())
}

// set puts when an actor must be woken.
func (r *rig) set(name string, w actorstore.Wake) error {
	a, err := r.store.Named(context.Background(), name, nil)
	if err != nil {
		return err
	}
	var b batch.Batch
	b.Put(actorstore.UserKey(nil), nil)
	return errors.Join(a.StageWake(&b, w), a.Apply(context.Background(), &b), a.Close())
}

func (r *rig) setAwake(name string, awake bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.awake[name] = awake
}

func (r *rig) in(name string, d time.Duration) {
	r.Helper()
	must(r, r.set(name, actorstore.Wake{At: r.began.Add(d)}))
}

func (r *rig) want(want ...string) {
	r.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.tried)
	if !slices.Equal(r.tried, want) {
		r.Errorf("tried %q, want %q", r.tried, want)
	}
	r.tried = nil
}

// pass lets a time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// must fails the test if err is not nil.
var must = testkit.Must

func bubble(t *testing.T, fn func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, memkv.New())
		fn(r)
		r.close()
	})
}

// TestDue: what is due when the Table starts is tried then, and all else at its time, however far away that is.
func TestDue(t *testing.T) {
	bubble(t, func(r *rig) {
		r.in("due", 0)
		r.in("soon", 3*time.Second)
		r.in("later", time.Hour)
		r.want()
		must(t, r.table.Start(t.Context()))
		r.want("due@0")
		r.in("now", 0)
		r.want("now@0")
		r.in("in between", 7*time.Second)
		pass(time.Minute)
		r.want("in between@7", "soon@3")
		pass(time.Hour)
		r.want("later@3600")
		if n := r.table.Len(); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

// TestTried: an actor that was tried in vain waits as long as it was told to, also if its handle is opened and closed meanwhile,
// until its row changes or it is hurried.
func TestTried(t *testing.T) {
	bubble(t, func(r *rig) {
		r.wake = func(w *actorstore.Waking) (time.Duration, error) { // as one does that opens the actor and can't go on
			a, err := r.store.Named(context.Background(), w.Name, nil)
			return 20 * time.Second, errors.Join(err, a.Close())
		}
		must(t, r.table.Start(t.Context()))
		r.in("a", 0)
		pass(61 * time.Second)
		r.want("a@0", "a@20", "a@60")
		r.table.Hurry("a")
		r.want("a@61")
		r.in("a", 70*time.Second)
		pass(10 * time.Second)
		r.want("a@70")
		r.table.Forget("a")
		r.setAwake("a", true)
		pass(time.Minute)
		r.want()
		r.setAwake("a", false)
		pass(5 * time.Second)
		r.want("a@135")
	})
}

// TestTold: of what a row says and what only this process knows the earlier time counts.
func TestTold(t *testing.T) {
	bubble(t, func(r *rig) {
		must(t, r.table.Start(t.Context()))
		add := func(name string, d time.Duration) {
			r.table.Add(actorstore.Waking{Name: name}, r.began.Add(d))
		}
		r.in("a", 4*time.Second)
		add("a", 2*time.Second)
		r.in("b", 2*time.Second)
		add("b", 4*time.Second)
		add("c", 3*time.Second)
		r.in("c", 4*time.Second)
		add("", time.Second)
		pass(20 * time.Second)
		r.want("a@2", "b@2", "c@3")
	})
}

// TestVersions: an actor that other versions tried is looked at by this one once it hears of it.
func TestVersions(t *testing.T) {
	bubble(t, func(r *rig) {
		must(t, r.table.Start(t.Context()))
		must(t, r.set("others", actorstore.Wake{Tried: []uint64{2, 3}}))
		must(t, r.set("own", actorstore.Wake{Tried: []uint64{2, 1}}))
		pass(20 * time.Second)
		r.want("others@0")
	})
}

// TestFailingReads: an index that can't be read at the start is an error, and later is read again.
func TestFailingReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := faultkv.New(memkv.New())
		r := newRig(t, engine)
		r.in("a", 30*time.Second)
		fault := engine.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Times: faultkv.Forever})
		if err := r.table.Start(t.Context()); err == nil {
			t.Error("it has started")
		}
		fault.Remove()
		must(t, r.table.Start(t.Context()))
		fault = engine.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Times: faultkv.Forever})
		pass(32 * time.Second)
		r.want()
		fault.Remove()
		pass(5 * time.Second)
		r.want("a@35")
		r.close()
	})
}

// TestOld: rows of stores of before are adopted, in pages, and then gone; those of other programs stay, what fails is tried again, and so
// are rows that come later.
func TestOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := memkv.New()
		put := func(from, to int) {
			for i := from; i < to; i++ {
				must(t, engine.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.Set(fmt.Appendf(nil, "old/%03d", i), []byte("row"))}}))
			}
		}
		left := func() (n int) {
			for _, err := range engine.Scan(t.Context(), kv.Range{Start: []byte("old/"), End: []byte("old0")}) {
				must(t, err)
				n++
			}
			return n
		}
		fails := 3
		old := wake.Old{
			Engine: engine, Start: []byte("old/"), End: []byte("old0"), Logger: slog.New(slog.DiscardHandler),
			Adopt: func(_ context.Context, row kv.Entry) bool {
				fails--
				return fails < 0 && !strings.HasSuffix(string(row.Key), "00")
			},
		}
		put(0, 600)
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan bool)
		go func() { old.Run(ctx); close(over) }()
		pass(time.Second)
		if n := left(); n != 6+2 {
			t.Errorf("%d rows are left", n)
		}
		put(600, 700)
		pass(2 * time.Minute)
		if n := left(); n != 7 {
			t.Errorf("%d rows are left", n)
		}
		cancel()
		<-over
	})
}
