package persist

import (
	"context"
	"errors"
	"slices"
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
	r := w.open(&Options{SaveInterval: time.Hour}) // after the first none begins by itself
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
		w.refuse(1)
		must(t, s.Mutate(ctx, add(1))) // is to be saved at once: the last save is long ago
		if synctest.Wait(); r.Saved() || w.log.lines("save failed") != 11 {
			t.Errorf("saved %v, %d lines", r.Saved(), w.log.lines("save failed"))
		}
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

// TestScheduleSavesState: the record is one value, so an event takes the newest state
// with it.
func TestScheduleSavesState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(nil)
		s := state(t, r)
		must(t, s.Mutate(ctx, add(1)))
		synctest.Wait()
		must(t, s.Mutate(ctx, add(1)))
		_, err := r.Schedule().After(ctx, time.Hour, "a")
		must(t, err)
		if w.countIn() != 2 || !r.Saved() {
			t.Errorf("stored %d, saved %v", w.countIn(), r.Saved())
		}
		w.eng.Reset()
		must(t, r.Save(ctx, now))
		if c := w.eng.Counts(); c.Commits != 0 {
			t.Errorf("%d commits", c.Commits)
		}
	})
}
