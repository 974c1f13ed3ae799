package persist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

var now = &SaveOptions{Immediate: true}

// commitsAt records when the engine is asked to commit, from now on, whatever it says.
func (w *world) commitsAt() func() []time.Duration {
	var mu sync.Mutex
	var all []time.Duration
	start := time.Now()
	w.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: 1 << 40, Match: func(faultkv.Op) bool {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, time.Since(start))
		return true
	}})
	return func() []time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

const sec = time.Second

// TestThrottle: the first change is saved at once, later ones SaveInterval after the
// last save began, with everything that came in between.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(nil)
		s := state(t, r)
		commits := w.commitsAt()
		for i, wait := range []time.Duration{0, 1, 2, 3, 30 * sec, 4} {
			pass(wait)
			must(t, s.Mutate(ctx, add(1)))
			if synctest.Wait(); i > 0 && i < 4 && w.countIn() != 1 {
				t.Errorf("%d: stored %d", i, w.countIn())
			}
		}
		pass(time.Minute)
		first := 30*sec + 1 + 2 + 3
		if got, want := commits(), []time.Duration{0, 10 * sec, first, first + 10*sec}; !slices.Equal(got, want) {
			t.Errorf("commits at %v, want %v", got, want)
		}
		if w.countIn() != 6 || !r.Saved() {
			t.Errorf("stored %d", w.countIn())
		}
	})
}

// TestThrottleStart: the interval counts from the start of a save, not from its end.
func TestThrottleStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := state(t, w.open(nil))
		commits := w.commitsAt()
		pause := w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		must(t, s.Mutate(ctx, add(1)))
		<-pause.Reached()
		pass(7 * sec)
		pause.Release()
		synctest.Wait()
		must(t, s.Mutate(ctx, add(1)))
		pass(20 * sec)
		if got, want := commits(), []time.Duration{0, 10 * sec}; !slices.Equal(got, want) {
			t.Errorf("commits at %v, want %v", got, want)
		}
	})
}

// TestMaxWait: a timer is replaced by an earlier one and by no later one.
func TestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(nil)
		s := state(t, r)
		must(t, s.Mutate(ctx, add(1)))
		synctest.Wait()
		commits := w.commitsAt()
		must(t, s.Mutate(ctx, add(1))) // 10 s
		r.SaveSoon(5 * sec)
		r.SaveSoon(7 * sec)
		r.SaveSoon(0)
		pass(6 * sec)
		must(t, s.Mutate(ctx, add(1))) // 5 s + 10 s
		must(t, r.Save(ctx, &SaveOptions{MaxWait: 2 * sec}))
		must(t, s.Mutate(ctx, add(1)))
		must(t, r.Save(ctx, nil))
		if got, want := commits(), []time.Duration{5 * sec, 8 * sec, 18 * sec}; !slices.Equal(got, want) {
			t.Errorf("commits at %v, want %v", got, want)
		}
	})
}

// TestSaveClean: with nothing to save nothing is written, and nobody waits.
func TestSaveClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(&Options{Connections: &telling{}})
		state(t, r)
		must(t, r.Save(ctx, now))
		w.eng.Reset()
		begin := time.Now()
		for _, o := range []*SaveOptions{nil, now, {Applied: true}, {Immediate: true, Applied: true}} {
			must(t, r.Save(ctx, o))
		}
		r.SaveSoon(1)
		pass(time.Minute)
		if c := w.eng.Counts(); c.Commits+c.Syncs != 0 || time.Since(begin) != time.Minute {
			t.Errorf("%+v after %v", c, time.Since(begin))
		}
	})
}

// TestSaveOne: an immediate save is one engine commit, and reads nothing.
func TestSaveOne(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	s := state(t, r)
	for range 3 {
		must(t, s.Mutate(ctx, add(1)))
		must(t, r.Save(ctx, now))
	}
	must(t, s.Mutate(ctx, add(1)))
	w.eng.Reset()
	must(t, r.Save(ctx, now))
	if c := w.eng.Counts(); c.Commits != 1 || c.Durable != 1 || c.Gets+c.Scans != 0 {
		t.Errorf("%+v", c)
	}
	must(t, s.Mutate(ctx, add(1)))
	w.eng.Reset()
	must(t, r.Save(ctx, &SaveOptions{Immediate: true, Applied: true}))
	if c := w.eng.Counts(); c.Commits != 1 || c.Durable != 0 || c.Syncs != 0 {
		t.Errorf("applied: %+v", c)
	}
	// Who wants it on stable storage has it brought there.
	must(t, r.Save(ctx, now))
	if c := w.eng.Counts(); c.Commits != 1 || c.Syncs != 1 {
		t.Errorf("durable: %+v", c)
	}
}

// TestFailedSave: a save that fails loses nothing. It is told, and tried again.
func TestFailedSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := &telling{}
		r := w.open(&Options{Connections: c})
		s := state(t, r)
		must(t, s.Mutate(ctx, add(1)))
		must(t, r.Save(ctx, now))
		c.set("a", 1)
		must(t, s.Mutate(ctx, add(1)))
		w.refuse(2) // with the connections and without
		wantErr(t, r.Save(ctx, now), batch.ErrTooLarge)
		if r.Saved() || w.countIn() != 1 || c.Changed() != 1 {
			t.Fatalf("saved %v, stored %d, %d connections changed", r.Saved(), w.countIn(), c.Changed())
		}
		must(t, r.Save(ctx, now))
		if !r.Saved() || w.countIn() != 2 || c.Changed() != 0 {
			t.Fatalf("saved %v, stored %d, %d connections changed", r.Saved(), w.countIn(), c.Changed())
		}
		if r := w.open(nil); got(t, state(t, r)) != 2 {
			t.Error("lost")
		}
	})
}

// TestFailedClean: also a failure with nothing but connections is no reason to forget.
func TestFailedClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := &telling{}
		r := w.open(&Options{Connections: c})
		state(t, r)
		c.set("a", 1)
		w.refuse(1)
		wantErr(t, r.Save(ctx, now), batch.ErrTooLarge)
		pass(minSaveRetry)
		if synctest.Wait(); c.Changed() != 0 {
			t.Error("not tried again")
		}
	})
}

// TestBackoff: what fails is tried again by itself, more and more seldom.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(nil)
		s := state(t, r)
		must(t, s.Mutate(ctx, add(1)))
		must(t, r.Save(ctx, now))
		must(t, s.Mutate(ctx, add(1)))
		commits := w.commitsAt()
		w.refuse(10)
		pass(200 * sec)
		ms := time.Millisecond
		want := []time.Duration{10 * sec}
		for _, d := range []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 12800 * ms, 25600 * ms, 30 * sec} {
			want = append(want, want[len(want)-1]+d)
		}
		if got := commits(); !slices.Equal(got, want) {
			t.Errorf("commits at %v, want %v", got, want)
		}
		if !r.Saved() || w.countIn() != 2 || w.log.lines("save failed") != 10 {
			t.Errorf("saved %v, stored %d, %d lines", r.Saved(), w.countIn(), w.log.lines("save failed"))
		}
		// The next failure begins with the shortest wait again.
		must(t, s.Mutate(ctx, add(1)))
		w.refuse(1)
		wantErr(t, r.Save(ctx, now), batch.ErrTooLarge)
		pass(minSaveRetry)
		if synctest.Wait(); !r.Saved() {
			t.Error("not tried again")
		}
	})
}

// TestWaiters: each learns what became of its own change, whatever becomes of others.
func TestWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(nil)
		s := state(t, r)
		must(t, s.Mutate(ctx, add(1)))
		must(t, r.Save(ctx, now))
		type result struct {
			who int
			err error
		}
		results := make(chan result)
		mutate := func(who int) {
			must(t, s.Mutate(ctx, add(1)))
			go func() { results <- result{who, r.Save(ctx, nil)} }()
			synctest.Wait()
		}
		expect := func(round string, want map[int]error) {
			t.Helper()
			for range len(want) {
				got := <-results
				if e, ok := want[got.who]; !ok || !errors.Is(got.err, e) {
					t.Errorf("%s: waiter %d got %v, want %v", round, got.who, got.err, e)
				}
				delete(want, got.who)
			}
		}
		// Two share a save that fails.
		w.refuse(1)
		mutate(1)
		mutate(2)
		expect("first", map[int]error{1: batch.ErrTooLarge, 2: batch.ErrTooLarge})
		// The second deferred save waits as the first one did, and an old failure is
		// nobody's any more.
		mutate(3)
		mutate(4)
		if r.Saved() {
			t.Fatal("saved too soon")
		}
		expect("second", map[int]error{3: nil, 4: nil})
		if w.countIn() != 5 {
			t.Errorf("stored %d", w.countIn())
		}
		// A change that comes during a save isn't in it: its waiter waits for the next,
		// which fails.
		pause := w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		mutate(5)
		<-pause.Reached()
		mutate(6)
		mutate(7)
		w.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1, Err: kv.ErrTooLarge})
		pause.Release()
		expect("third", map[int]error{5: nil})
		if w.countIn() != 6 {
			t.Errorf("stored %d", w.countIn())
		}
		expect("fourth", map[int]error{6: batch.ErrTooLarge, 7: batch.ErrTooLarge})
		// Immediate ones that come during a save share the next one.
		w.eng.Reset()
		pause = w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		for i := range 5 {
			must(t, s.Mutate(ctx, add(1)))
			go func() { results <- result{i, r.Save(ctx, now)} }()
			synctest.Wait()
		}
		pause.Release()
		expect("fifth", map[int]error{0: nil, 1: nil, 2: nil, 3: nil, 4: nil})
		if c := w.eng.Counts(); c.Commits != 2 || w.countIn() != 13 {
			t.Errorf("%d commits, stored %d", c.Commits, w.countIn())
		}
	})
}

// TestWaiterLeaves: a waiter that leaves takes nobody's save away.
func TestWaiterLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(nil)
		s := state(t, r)
		pause := w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		must(t, s.Mutate(ctx, add(1)))
		short, cancel := context.WithTimeout(ctx, sec)
		defer cancel()
		wantErr(t, r.Save(short, now), context.DeadlineExceeded)
		pause.Release()
		if synctest.Wait(); !r.Saved() || w.countIn() != 1 {
			t.Errorf("stored %d", w.countIn())
		}
	})
}

// TestDurability: who wants stable storage gets it, who doesn't, doesn't wait for it.
func TestDurability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(&Options{SaveInterval: time.Hour})
		s := state(t, r)
		must(t, s.Mutate(ctx, add(1)))
		must(t, r.Save(ctx, now))
		pause := w.eng.Pause(faultkv.Rule{Point: faultkv.AfterCommit, Times: 1}) // as a slow fsync
		must(t, s.Mutate(ctx, add(1)))
		durable := make(chan error, 1)
		go func() { durable <- r.Save(ctx, now) }()
		<-pause.Reached()
		must(t, r.Save(ctx, &SaveOptions{Applied: true})) // it is stored, if not safe
		select {
		case err := <-durable:
			t.Errorf("durable before the fsync: %v", err)
		default:
		}
		pause.Release()
		must(t, <-durable)
		// An fsync that fails is told to those who waited for it, and to nobody else.
		must(t, s.Mutate(ctx, add(1)))
		w.eng.Fail(faultkv.Rule{Point: faultkv.AfterCommit, Times: 1})
		wantErr(t, r.Save(ctx, now), actorstore.ErrPoisoned)
		wantErr(t, r.Save(ctx, &SaveOptions{Applied: true}), actorstore.ErrPoisoned)
	})
}

// TestConnections: state and connections are one batch, the record first, then the
// connections in their order; more than fit into one commit are split.
func TestConnections(t *testing.T) {
	w := newWorld(t)
	c := &telling{}
	r := w.open(&Options{Connections: c})
	s := state(t, r)
	must(t, s.Mutate(ctx, add(1)))
	must(t, r.Save(ctx, now))
	for i := range 300 {
		c.set(fmt.Sprintf("%03d", i), i)
	}
	must(t, s.Mutate(ctx, add(1)))
	var firsts, ops []int
	w.eng.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeCommit {
			firsts = append(firsts, len(op.Commit.Ops[0].Key))
			ops = append(ops, len(op.Commit.Ops))
		}
		return nil
	})
	w.eng.Reset()
	must(t, r.Save(ctx, now))
	if n := w.eng.Counts(); n.Commits != 3 || n.Durable != 1 {
		t.Errorf("%d commits, %d durable", n.Commits, n.Durable)
	}
	if firsts[0] >= firsts[1] { // the record's key is the shortest
		t.Errorf("the first commit doesn't begin with the record: %v", firsts)
	}
	if n := len(slices.Collect(keys(t, w.actor))); n != 300 || c.Changed() != 0 || w.countIn() != 2 {
		t.Errorf("%d connections stored, %d changed, count %d", n, c.Changed(), w.countIn())
	}
	w.eng.Hook(nil)
	// Connections alone are saved, too, and no record with them.
	c.set("007", 1)
	w.eng.Reset()
	must(t, r.Save(ctx, now))
	if n := w.eng.Counts(); n.Commits != 1 || c.Changed() != 0 {
		t.Errorf("%d commits, %d changed", n.Commits, c.Changed())
	}
	c.set("007", 2)
	must(t, r.Close(ctx))
	if v, err := w.actor.Get(ctx, actorstore.AppendConnection(nil, "007"), nil); err != nil || v[0] != 2 {
		t.Errorf("after Close: %v, %v", v, err)
	}
}

// keys yields the ids of the stored connections.
func keys(t testing.TB, a *actorstore.Actor) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for e, err := range a.List(ctx, actorstore.ListOptions{Prefix: []byte{actorstore.NamespaceConnections}}) {
			must(t, err)
			if !yield(string(e.Key[1:])) {
				return
			}
		}
	}
}

// TestConnectionsUnasked: a Stager that can't tell whether it has something is asked.
func TestConnectionsUnasked(t *testing.T) {
	w := newWorld(t)
	c := &conns{}
	r := w.open(&Options{Connections: c})
	state(t, r)
	c.set("a", 1)
	must(t, r.Save(ctx, now))
	if c.dirty.Len() != 0 {
		t.Error("not staged")
	}
	w.eng.Reset()
	must(t, r.Save(ctx, now))
	must(t, r.Close(ctx))
	if n := w.eng.Counts(); n.Commits != 0 {
		t.Errorf("%d commits for nothing", n.Commits)
	}
}

// TestConnectionsFail: connections that can't be stored don't keep the state from it.
func TestConnectionsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := &telling{}
		r := w.open(&Options{Connections: c, SaveInterval: time.Hour})
		s := state(t, r)
		must(t, s.Mutate(ctx, add(1)))
		boom := errors.New("boom")
		c.set("a", 1)
		c.fail = boom
		err := r.Save(ctx, now)
		wantErr(t, err, ErrConnections)
		wantErr(t, err, boom)
		if w.countIn() != 1 || c.Changed() != 1 {
			t.Errorf("stored %d, %d changed", w.countIn(), c.Changed())
		}
		must(t, s.Mutate(ctx, add(1)))
		wantErr(t, r.Save(ctx, &SaveOptions{Immediate: true, Applied: true}), ErrConnections)
		wantErr(t, r.Close(ctx), boom)
		c.fail = nil
		must(t, r.Close(ctx))
		if c.Changed() != 0 {
			t.Error("not tried again")
		}
	})
}

// TestCrashInSave: wherever a save is cut off, the state and the first connections are
// new and the rest old, each of them whole.
func TestCrashInSave(t *testing.T) {
	for landed := range 4 {
		w := newWorld(t)
		c := &telling{}
		r := w.open(&Options{Connections: c})
		s := state(t, r)
		for i := range 300 {
			c.set(fmt.Sprintf("%03d", i), 1)
		}
		must(t, s.Mutate(ctx, add(1)))
		must(t, r.Save(ctx, now))
		for i := range 300 {
			c.set(fmt.Sprintf("%03d", i), 2)
		}
		must(t, s.Mutate(ctx, add(1)))
		w.eng.Tear(landed)
		err := r.Save(ctx, now)
		if (err == nil) != (landed == 3) {
			t.Fatalf("%d commits landed: %v", landed, err)
		}
		w.eng.Heal()
		if r := w.open(nil); got(t, state(t, r)) != 1+min(landed, 1) {
			t.Errorf("%d commits landed: count %d", landed, got(t, state(t, r)))
		}
		var fresh []bool
		for id := range keys(t, w.actor) {
			v, err := w.actor.Get(ctx, actorstore.AppendConnection(nil, id), nil)
			must(t, err)
			fresh = append(fresh, v[0] == 2)
		}
		n := 0
		for n < len(fresh) && fresh[n] {
			n++
		}
		if want := []int{0, 127, 255, 300}[landed]; len(fresh) != 300 || n != want || slices.Contains(fresh[n:], true) {
			t.Errorf("%d commits landed: %d of %d are new, want %d", landed, n, len(fresh), want)
		}
	}
}

// TestPartLanded: of a batch that landed in part nobody knows what is stored, so the
// record is written again, as it is in memory.
func TestPartLanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.Entries = 1
		r := w.open(nil)
		s := state(t, r)
		must(t, s.Mutate(ctx, add(1)))
		must(t, r.Save(ctx, now))
		short, cancel := context.WithCancel(ctx)
		b := batch.Batch{Mode: batch.Ordered}
		s.StageMutate(&b, add(10))
		b.Late(func(b *batch.Batch) error {
			b.Late(func(b *batch.Batch) error { // behind the record
				b.Put(actorstore.UserKey([]byte("a")), nil)
				return nil
			})
			return nil
		})
		w.eng.Hook(func(op faultkv.Op) error {
			if op.Point == faultkv.AfterCommit {
				cancel()
			}
			return nil
		})
		var part *actorstore.OrderedError
		if err := w.actor.Commit(short, &b); !errors.As(err, &part) {
			t.Fatalf("got %v", err)
		}
		w.eng.Hook(nil)
		if got(t, s) != 1 || r.Saved() || w.countIn() != 11 {
			t.Fatalf("count %d, saved %v, stored %d", got(t, s), r.Saved(), w.countIn())
		}
		must(t, r.Close(ctx))
		if w.countIn() != 1 {
			t.Errorf("stored %d", w.countIn())
		}
	})
}

// TestClose: what isn't saved is saved by Close, and if it can't, Close says so and can
// be called again.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(nil)
		s := state(t, r)
		for range 3 {
			must(t, s.Mutate(ctx, add(1)))
		}
		w.refuse(2)
		wantErr(t, r.Close(ctx), batch.ErrTooLarge)
		if got(t, s) != 3 {
			t.Errorf("count %d", got(t, s))
		}
		must(t, s.Mutate(ctx, add(1)))
		w.eng.Heal()
		must(t, r.Close(ctx))
		must(t, r.Close(ctx))
		wantErr(t, s.Mutate(ctx, add(1)), ErrClosed)
		wantErr(t, r.Save(ctx, now), ErrClosed)
		_, err := s.Get()
		wantErr(t, err, ErrClosed)
		if r := w.open(nil); got(t, state(t, r)) != 4 {
			t.Errorf("count %d", got(t, state(t, r)))
		}
	})
}

// TestCloseWaits: Close waits for a save that is under way.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(nil)
		s := state(t, r)
		pause := w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		must(t, s.Mutate(ctx, add(1)))
		<-pause.Reached()
		must(t, s.Mutate(ctx, add(1)))
		short, cancel := context.WithTimeout(ctx, sec)
		defer cancel()
		wantErr(t, r.Close(short), context.DeadlineExceeded)
		closed := make(chan error)
		go func() { closed <- r.Close(ctx) }()
		synctest.Wait()
		pause.Release()
		must(t, <-closed)
		if w.countIn() != 2 {
			t.Errorf("stored %d", w.countIn())
		}
	})
}

// TestCloseLate: a Record whose actor was closed before it says what is lost.
func TestCloseLate(t *testing.T) {
	w := newWorld(t)
	r := w.open(&Options{SaveInterval: time.Hour})
	s := state(t, r)
	must(t, s.Mutate(ctx, add(1)))
	must(t, r.Save(ctx, now))
	must(t, s.Mutate(ctx, add(1)))
	must(t, w.actor.Close())
	wantErr(t, r.Close(ctx), actorstore.ErrClosed)
	must(t, r.Close(ctx))
}

// TestSaveQuota: a state that the quota has no room for stays, until there is.
func TestSaveQuota(t *testing.T) {
	w := newWorld(t)
	w.limits.Storage = 4000
	r := w.open(&Options{SaveInterval: time.Hour})
	s := state(t, r)
	must(t, w.actor.Put(ctx, actorstore.UserKey(nil), make([]byte, 3000)))
	must(t, s.Set(ctx, count{Count: 1, Pad: string(make([]byte, 2000))}))
	wantErr(t, r.Save(ctx, now), actorstore.ErrQuota)
	must(t, w.actor.Delete(ctx, actorstore.UserKey(nil)))
	must(t, r.Save(ctx, now))
	if w.countIn() != 1 {
		t.Errorf("stored %d", w.countIn())
	}
}

// BenchmarkSave compares a change that is saved with the same bytes put by themselves.
func BenchmarkSave(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		w := newWorld(b)
		r := w.open(&Options{SaveInterval: time.Hour})
		s, err := OpenState[count](ctx, r, nil)
		must(b, err)
		v := count{Pad: string(make([]byte, size))}
		b.Run("save/"+strconv.Itoa(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v.Count++
				must(b, s.Set(ctx, v))
				must(b, r.Save(ctx, now))
			}
		})
		b.Run("put/"+strconv.Itoa(size), func(b *testing.B) {
			b.ReportAllocs()
			value := make([]byte, size+30)
			for b.Loop() {
				must(b, w.actor.Put(ctx, []byte{4}, value))
			}
		})
	}
}
