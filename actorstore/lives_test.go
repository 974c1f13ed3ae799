package actorstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// livesKeys is how many keys an actor has in TestLives.
const livesKeys = 10

func livesKey(i int) []byte { return user("k" + strconv.Itoa(i)) }

// A livesState is what the keys have, "" for nothing.
type livesState [livesKeys]string

// lives is all that an actor was, and may be by now: it is dropped and made again, closed
// and opened, and taken over by another Store, while readers look at it.
type lives struct {
	mu     sync.Mutex
	states []livesState      // in the order in which they came
	index  map[[2]uint64]int // of the state after a commit of a life
	sure   atomic.Int64      // the newest one that is there for sure
	handle atomic.Pointer[livesHandle]
}

// A livesHandle is the owner of the actor.
type livesHandle struct {
	*actorstore.Actor
	life uint64
}

// stage adds a state before it is committed.
func (l *lives) stage(life, seq uint64, s livesState) (index int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.states = append(l.states, s)
	l.index[[2]uint64{life, seq}] = len(l.states) - 1
	return len(l.states) - 1
}

// between returns the states from the one that was sure, until now.
func (l *lives) between(sure int64) []livesState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.states[sure:len(l.states):len(l.states)]
}

// TestLives: a read of the newest state is one of a state there was meanwhile, and a
// snapshot shows its own state for ever, whatever becomes of the actor and its handle.
func TestLives(t *testing.T) {
	steps := testkit.Pick(300, 600, 6000)
	for _, tt := range []struct {
		what  string
		open  func(t *testing.T) kv.Engine
		cache int64
	}{
		{"memkv", func(*testing.T) kv.Engine { return memkv.New() }, 0},
		{"memkv", func(*testing.T) kv.Engine { return memkv.New() }, 3000},
		{"pebblekv", openPebble, 0},
		{"pebblekv", openPebble, 3000},
	} {
		t.Run(fmt.Sprint(tt.what, " cache=", tt.cache), func(t *testing.T) {
			eng := faultkv.New(tt.open(t))
			eng.Hook(func(faultkv.Op) error { runtime.Gosched(); return nil })
			l := &lives{states: []livesState{{}}, index: map[[2]uint64]int{}}
			w := &livesWriter{t: t, lives: l, eng: eng, rnd: rand.New(rand.NewPCG(1, uint64(tt.cache)))}
			for range 2 {
				s, err := actorstore.Open(ctx, eng, &actorstore.Options{Now: clock, CacheBytes: tt.cache, Limits: batch.Limits{Storage: 1 << 40}})
				must(t, err)
				t.Cleanup(func() { must(t, s.Close()) })
				w.stores = append(w.stores, s)
			}
			var others sync.WaitGroup
			done := make(chan struct{})
			for i := range 4 {
				r := livesReader{lives: l, rnd: rand.New(rand.NewPCG(2, uint64(i)))}
				others.Go(func() {
					if err := errors.Join(r.run(done), r.close()); err != nil {
						t.Error(err)
					}
				})
			}
			others.Go(func() {
				if err := livesNeighbour(w.stores[0], done); err != nil {
					t.Error(err)
				}
			})
			w.run(steps)
			close(done)
			others.Wait()
		})
	}
}

func openPebble(t *testing.T) kv.Engine {
	eng, err := pebblekv.Open(t.TempDir(), &pebblekv.Options{CacheBytes: 1 << 20, MemtableBytes: 256 << 10})
	must(t, err)
	t.Cleanup(func() { must(t, eng.Close()) })
	return eng
}

// livesNeighbour is another actor, which commits and shares snapshots.
func livesNeighbour(s *actorstore.Store, done <-chan struct{}) (err error) {
	a, err := s.Actor(ctx, actorstore.NewID(), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	for n := 0; ; n++ {
		select {
		case <-done:
			return nil
		default:
		}
		var b batch.Batch
		b.Put(livesKey(n%livesKeys), []byte(strconv.Itoa(n)))
		if err := a.Apply(ctx, &b); err != nil {
			return err
		}
		snap, err := a.PageSnapshot(ctx)
		if err != nil {
			return err
		}
		v, err := snap.Page(ctx, livesKey(n%livesKeys), nil)
		if err = errors.Join(err, snap.Close()); err != nil || string(v) != strconv.Itoa(n) {
			return fmt.Errorf("the neighbour has %q, %v, after %d", v, err, n)
		}
	}
}

// A livesWriter is the owner of the actor.
type livesWriter struct {
	*lives
	t         *testing.T
	eng       *faultkv.Engine
	stores    []*actorstore.Store
	rnd       *rand.Rand
	a, before *actorstore.Actor // before was taken over, and isn't closed
	store     int
	life, seq uint64
	now       livesState
	values    int
}

func (w *livesWriter) run(steps int) {
	w.open()
	for range steps {
		switch n := w.rnd.IntN(200); {
		case n < 4:
			must(w.t, w.a.Close())
			w.open()
		case n < 7:
			w.takeOver()
		case n < 9:
			w.drop()
		case n < 11:
			w.fail(kv.ErrUnknownOutcome)
		case n < 15:
			w.fail(kv.ErrTooLarge)
		default:
			w.commit()
		}
		if w.t.Failed() {
			break
		}
	}
	w.handle.Store(nil)
	must(w.t, w.a.Close())
	w.closeBefore()
}

func (w *livesWriter) open() {
	w.closeBefore()
	a, err := w.stores[w.store].Actor(ctx, testID, nil)
	must(w.t, err)
	if a.Seq() != w.seq {
		w.t.Fatalf("opened in state %d, want %d", a.Seq(), w.seq)
	}
	w.a = a
	w.handle.Store(&livesHandle{a, w.life})
}

func (w *livesWriter) closeBefore() {
	if w.before != nil {
		_ = w.before.Close() // it was replaced
		w.before = nil
	}
}

// takeOver has the other Store take the actor.
func (w *livesWriter) takeOver() {
	was := w.a
	w.store = 1 - w.store
	w.open()
	if w.before = was; w.rnd.IntN(2) == 0 {
		w.closeBefore()
	}
}

func (w *livesWriter) drop() {
	next := w.stage(w.life+1, 0, livesState{})
	must(w.t, w.a.Drop(ctx))
	w.landed(next, livesState{})
	w.life, w.seq = w.life+1, 0
	w.open()
}

// landed says that a state is there.
func (w *livesWriter) landed(index int, s livesState) {
	w.sure.Store(int64(index))
	w.now = s
}

// fail has a commit fail: refused, or applied without an answer.
func (w *livesWriter) fail(with error) {
	applied := errors.Is(with, kv.ErrUnknownOutcome)
	rule, want, index := faultkv.Rule{Point: faultkv.BeforeCommit, Err: with, Match: faultkv.Key(layout.RecordKey(layout.ID(w.a.ID()), layout.PartHead))}, batch.ErrTooLarge, 0
	var b batch.Batch
	b.DeleteRange(livesKey(2), livesKey(9))
	b.Put(livesKey(1), []byte("failed"))
	next := w.now
	clear(next[2:9])
	next[1] = "failed"
	if applied {
		rule.Point, want = faultkv.AfterApply, actorstore.ErrPoisoned
		index = w.stage(w.life, w.seq+1, next)
	}
	f := w.eng.Fail(rule)
	err := w.a.Apply(ctx, &b)
	f.Remove()
	if !errors.Is(err, want) {
		w.t.Errorf("a commit that fails with %v: %v", with, err)
	}
	if applied {
		w.landed(index, next)
		w.seq++
		must(w.t, w.a.Close())
		w.open()
	}
}

// commit changes some keys, a few of them twice.
func (w *livesWriter) commit() {
	var b batch.Batch
	next := w.now
	put := func(k int) {
		w.values++
		next[k] = fmt.Sprintf("%d %060d", w.values, k)
		b.Put(livesKey(k), []byte(next[k]))
	}
	for range 1 + w.rnd.IntN(5) {
		k := w.rnd.IntN(livesKeys)
		switch w.rnd.IntN(6) {
		case 0:
			b.Delete(livesKey(k))
			next[k] = ""
		case 1:
			k = min(k, livesKeys-2)
			end := min(k+1+w.rnd.IntN(3), livesKeys-1)
			b.DeleteRange(livesKey(k), livesKey(end))
			clear(next[k:end])
		case 2:
			b.Put(livesKey(k), nil) // an empty value isn't a page
			next[k] = ""
		default:
			put(k)
		}
	}
	if w.rnd.IntN(3) == 0 {
		k := w.rnd.IntN(livesKeys)
		b.Put(livesKey(k), []byte("nobody may see this"))
		put(k)
	}
	index := w.stage(w.life, w.seq+1, next)
	land := w.a.Apply
	if w.rnd.IntN(10) == 0 {
		land = w.a.Commit
	}
	must(w.t, land(ctx, &b))
	w.landed(index, next)
	w.seq++
}
