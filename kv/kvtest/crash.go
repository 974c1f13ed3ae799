package kvtest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// A Crasher has what an engine stands on crash and come back, so that all is lost
// that was not on stable storage, and perhaps nothing. It returns the engine to go on
// with: the same, which is in another kv.Incarnation by then or will be with the next
// call, or one that was opened anew, where the crash ends the engine too.
type Crasher func(t testing.TB) kv.Engine

// RunCrashes runs the suite of what outlives a crash, as subtests that each open an
// engine of their own, of which all but one crash it so many times. The suite closes the
// engine that the last crash has returned.
func RunCrashes(t *testing.T, times int, open func(t testing.TB) (kv.Engine, Crasher)) {
	t.Run("Sync", func(t *testing.T) { testCrashSync(t, times, open) })
	t.Run("In", func(t *testing.T) { testCrashIn(t, times, open) })
	t.Run("Durable", func(t *testing.T) { testCrashDurable(t, open) })
	t.Run("Load", func(t *testing.T) { testCrashLoad(t, times, open) })
}

// testCrashSync: a Sync that covers what a crash may have taken says so, however often it
// is asked; one for what came later doesn't.
func testCrashSync(t *testing.T, times int, open func(t testing.TB) (kv.Engine, Crasher)) {
	eng, crash := open(t)
	defer func() { closeEngine(t, eng) }()
	if err := eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{suite.Set("k", "0")}}); err != nil {
		t.Fatal(err)
	}
	for round := 1; round <= times; round++ {
		before, in := eng, eng.Incarnation()
		value := strconv.Itoa(round)
		suite.Commit(t, eng, suite.Set("k", value))
		eng = crash(t)
		for range 3 {
			err := before.Sync(ctx, in)
			switch {
			case errors.Is(err, kv.ErrUnknownOutcome), errors.Is(err, kv.ErrPoisoned), errors.Is(err, kv.ErrClosed):
			case err != nil:
				t.Fatalf("Sync after a crash: got %v, want %v", err, kv.ErrUnknownOutcome)
			default:
				suite.WantGet(t, eng, "k", value)
				t.Fatalf("Sync after a crash succeeded, without knowing whether all is there")
			}
		}
		got, err := eng.Get(ctx, []byte("k"), nil)
		if err != nil || string(got) != value && string(got) != strconv.Itoa(round-1) {
			t.Fatalf("after a crash: k=%s, %v", got, err)
		}
		now := eng.Incarnation()
		if eng == before && now <= in {
			t.Errorf("the incarnation is %d after a crash, and was %d", now, in)
		}
		suite.Commit(t, eng, suite.Set("k", value))
		if err := eng.Sync(ctx, now); err != nil {
			t.Fatalf("Sync of what came after the crash: %v", err)
		}
		suite.WantGet(t, eng, "k", value)
	}
}

// testCrashIn: a commit that belongs to the incarnation before a crash is refused, also if
// nothing has met the crash yet.
func testCrashIn(t *testing.T, times int, open func(t testing.TB) (kv.Engine, Crasher)) {
	eng, crash := open(t)
	defer func() { closeEngine(t, eng) }()
	var id kv.CommitID
	for range times {
		before, in := eng, eng.Incarnation()
		if err := eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{suite.Set("k", "1")}, In: in}); err != nil {
			t.Fatal(err)
		}
		eng = crash(t)
		for range 2 {
			id[0]++ // else its outcome can't be found out where the answer doesn't come
			err := before.Commit(ctx, &kv.Commit{ID: id, Ops: []kv.Op{suite.Set("late", "1")}, In: in})
			if !errors.Is(err, kv.ErrIncarnation) && !errors.Is(err, kv.ErrPoisoned) && !errors.Is(err, kv.ErrClosed) {
				t.Errorf("a commit for the incarnation before: got %v, want %v", err, kv.ErrIncarnation)
			}
		}
		suite.WantScan(t, eng, kv.Range{}, "k=1")
	}
}

// testCrashDurable: what was promised to be durable is there after a crash, by whatever it
// was promised, and so is all that was applied before.
func testCrashDurable(t *testing.T, open func(t testing.TB) (kv.Engine, Crasher)) {
	eng, crash := open(t)
	defer func() { closeEngine(t, eng) }()
	for i := range 10 {
		in := eng.Incarnation()
		suite.Commit(t, eng, suite.Set(fmt.Sprintf("a%d", i), "1"))
		if i%2 == 0 {
			if err := eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{suite.Set(fmt.Sprintf("b%d", i), "1")}}); err != nil {
				t.Fatal(err)
			}
		} else if err := eng.Sync(ctx, in); err != nil {
			t.Fatal(err)
		}
	}
	eng = crash(t)
	for i := range 10 {
		suite.WantGet(t, eng, fmt.Sprintf("a%d", i), "1")
		if i%2 == 0 {
			suite.WantGet(t, eng, fmt.Sprintf("b%d", i), "1")
		}
	}
}

// testCrashLoad crashes beside writers that apply and sync: each counts up a key of its own,
// and what a Sync has acknowledged is there afterwards, with all before it.
func testCrashLoad(t *testing.T, times int, open func(t testing.TB) (kv.Engine, Crasher)) {
	eng, crash := open(t)
	defer func() { closeEngine(t, eng) }()
	const writers = 4
	acked := make([]atomic.Int64, writers)
	for range times {
		var wg sync.WaitGroup
		started := make(chan struct{}, writers)
		before, in := eng, eng.Incarnation() // those that find themselves in another one are done
		for w := range writers {
			wg.Go(func() {
				key := fmt.Sprintf("w%d", w)
				for n := acked[w].Load() + 1; ; n++ {
					err := before.Commit(ctx, &kv.Commit{Ops: []kv.Op{suite.Set(key, fmt.Sprint(n))}, Durability: kv.Applied})
					if err == nil && n%3 == 0 {
						if err = before.Sync(ctx, in); err == nil {
							acked[w].Store(n)
							select {
							case started <- struct{}{}:
							default:
							}
						}
					}
					if err != nil || before.Incarnation() != in {
						return
					}
				}
			})
		}
		for range writers {
			<-started
		}
		least := make([]int64, writers)
		for w := range acked {
			least[w] = acked[w].Load()
		}
		eng = crash(t)
		wg.Wait()
		for w := range acked {
			if eng == before { // what it has acknowledged since counts as well
				least[w] = acked[w].Load()
			}
			got, err := eng.Get(ctx, fmt.Appendf(nil, "w%d", w), nil)
			if err != nil && !errors.Is(err, kv.ErrNotFound) {
				t.Fatalf("w%d after a crash: %v", w, err)
			}
			have, _ := strconv.ParseInt(string(got), 10, 64) // 0 for none
			if have < least[w] {
				t.Errorf("w%d is %d after a crash, and %d was acknowledged", w, have, least[w])
			}
			acked[w].Store(have)
		}
	}
}

func closeEngine(t testing.TB, eng kv.Engine) {
	t.Helper()
	if err := eng.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
