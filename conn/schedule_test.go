package conn

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A timeline runs in made-up time, and notes when engine commits were made, in
// milliseconds after the first save.
type timeline struct {
	*room
	c     *Conn
	start time.Time

	mu sync.Mutex
	at []int64 // +checklocks:mu
	// broken is why commits fail, nil if they don't.
	broken error // +checklocks:mu
}

// commit is called before every commit.
func (l *timeline) commit(op faultkv.Op) error {
	if op.Point != faultkv.BeforeCommit {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = append(l.at, time.Since(l.start).Milliseconds())
	return l.broken
}

// fail has commits fail, or no more, and forgets those that were tried.
func (l *timeline) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken, l.at = err, nil
}

// run opens a room with one connection that has just been saved, and calls fn.
func onTimeline(t *testing.T, opts Options, fn func(t *testing.T, l *timeline)) {
	synctest.Test(t, func(t *testing.T) {
		l := &timeline{room: open(t, opts)}
		l.c = l.create(1)
		synctest.Wait() // nothing was saved for long, so this is saved at once
		l.same()
		l.start = time.Now()
		l.eng.Hook(l.commit)
		fn(t, l)
	})
}

// pass lets time pass, up to so many milliseconds after the start.
func (l *timeline) pass(millis int64) {
	<-time.After(time.Until(l.start.Add(time.Duration(millis) * time.Millisecond)))
	synctest.Wait()
}

func (l *timeline) want(at ...int64) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.at, at) {
		l.t.Errorf("saved at %v, want %v", l.at, at)
	}
}

// Changes of a state are saved an interval after the save before, however many they are,
// and at once if that is over. Nothing else of the actor has to change for that.
func TestThrottle(t *testing.T) {
	onTimeline(t, Options{}, func(t *testing.T, l *timeline) {
		for i := range 30 {
			l.pass(int64(i) * 1000)
			must(t, l.c.SetState(i))
		}
		l.pass(60_000)
		l.want(10_000, 20_000, 30_000)
		l.same()
		must(t, l.c.SetState("at once"))
		synctest.Wait()
		l.want(10_000, 20_000, 30_000, 60_000)
		l.pass(200_000)
		l.want(10_000, 20_000, 30_000, 60_000)
	})
}

// An index waits 5 seconds at most, whatever is planned.
func TestMaxWait(t *testing.T) {
	onTimeline(t, Options{}, func(t *testing.T, l *timeline) {
		l.pass(1000)
		must(t, l.c.SetState(1)) // planned for 10 s
		l.pass(2000)
		received(t, l.c, 1)
		l.pass(6999)
		l.want()
		if got := l.acks.take(); got != nil {
			t.Errorf("acknowledged %v before it was saved", got)
		}
		// A later wish doesn't put it off.
		received(t, l.c, 2)
		l.pass(7000)
		l.want(7000)
		if got := l.acks.take(); !slices.Equal(got, []Ack{{l.c, 2}}) {
			t.Errorf("acknowledged %v", got)
		}
		if _, err := l.c.Sent(); err != nil {
			t.Fatal(err)
		}
		l.pass(30_000)
		l.want(7000, 12_000)
		l.same()
	})
}

// What a gateway has to keep for a connection is bounded.
func TestMaxBuffered(t *testing.T) {
	onTimeline(t, Options{}, func(t *testing.T, l *timeline) {
		other := l.create(2)
		for i := range 4 {
			if _, err := l.c.Received(Index(i+1), 124_999); err != nil { // 499,996 in all
				t.Fatal(err)
			}
			if _, err := other.Received(Index(i+1), 100_000); err != nil { // the bound is each connection's
				t.Fatal(err)
			}
		}
		synctest.Wait()
		l.want()
		if _, err := l.c.Received(5, 4); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		l.want(0)
		l.same()
		// They have been saved, and are not counted again.
		if _, err := l.c.Received(6, 499_999); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		l.want(0)
		l.pass(5000)
		l.want(0, 5000)
	})
}

// Messages are bounded in number, too: beyond half of what an index can count a gateway
// can't tell any more which of them is acknowledged.
func TestMaxMessages(t *testing.T) {
	onTimeline(t, Options{}, func(t *testing.T, l *timeline) {
		for i := range maxMessages - 1 {
			if _, err := l.c.Received(Index(i+1), 0); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		l.want()
		if _, err := l.c.Received(maxMessages, 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		l.want(0)
		if got := l.acks.take(); !slices.Equal(got, []Ack{{l.c, maxMessages}}) {
			t.Errorf("acknowledged %v", got)
		}
		if _, err := l.c.Received(2*maxMessages-1, 0); err != nil { // those that are missing count
			t.Fatal(err)
		}
		synctest.Wait()
		l.want(0)
		l.pass(5000)
		l.want(0, 5000)
	})
}

// What a save had that failed is counted again.
func TestBufferedAfterFailure(t *testing.T) {
	onTimeline(t, Options{}, func(t *testing.T, l *timeline) {
		if _, err := l.c.Received(1, 300_000); err != nil {
			t.Fatal(err)
		}
		l.refuse()
		if err := l.set.Save(ctx); err == nil {
			t.Fatal("nothing failed")
		}
		if _, err := l.c.Received(2, 200_000); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		l.want(0)
		l.same()
	})
}

// Who has subscribed must not be forgotten: it is saved at once.
func TestSubscribeAtOnce(t *testing.T) {
	onTimeline(t, Options{}, func(t *testing.T, l *timeline) {
		l.pass(100)
		must(t, l.c.Subscribe("tick"))
		synctest.Wait()
		l.want(100)
		l.same()
		must(t, l.c.Subscribe("tick"))
		l.pass(200)
		must(t, l.c.Unsubscribe("tick"))
		synctest.Wait()
		l.want(100, 200)
		l.same()
		l.pass(100_000)
		l.want(100, 200)
	})
}

// A save that fails is tried again, ever more slowly, and loses nothing.
func TestBackoff(t *testing.T) {
	onTimeline(t, Options{}, func(t *testing.T, l *timeline) {
		l.fail(kv.ErrTooLarge)
		must(t, l.c.Subscribe("tick"))
		for s := range int64(200) {
			l.pass(s * 1000)
			must(t, l.c.SetState(s)) // changes don't hurry it
		}
		l.want(0, 1000, 3000, 7000, 15_000, 31_000, 63_000, 123_000, 183_000)
		l.fail(nil)
		l.pass(243_000)
		l.want(243_000)
		l.same()
		l.pass(1_000_000)
		// And from the beginning again.
		l.fail(kv.ErrTooLarge)
		must(t, l.c.SetState("x"))
		l.pass(1_008_000)
		l.want(1_000_000, 1_001_000, 1_003_000, 1_007_000)
		l.fail(nil)
	})
}

// Options.Save saves in the Set's stead.
func TestOwnSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *room
		var broken atomic.Bool
		var calls atomic.Int64
		broken.Store(true)
		opts := Options{}
		opts.Save = func(ctx context.Context) error {
			calls.Add(1)
			if broken.Load() {
				return errors.New("not now")
			}
			return r.set.Save(ctx)
		}
		r = open(t, opts)
		r.create(1)
		synctest.Wait()
		if len(r.stored()) != 0 {
			t.Error("it was saved all the same")
		}
		broken.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		r.same()
		time.Sleep(time.Hour)
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls, want one that failed and one that didn't", n)
		}
	})
}

// An Options.Save that does nothing is asked again, but not all the time.
func TestOwnSaveIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		opts := Options{Save: func(context.Context) error {
			calls.Add(1)
			return nil
		}}
		r := open(t, opts)
		r.create(1)
		time.Sleep(95 * time.Second)
		synctest.Wait()
		if n := calls.Load(); n != 10 {
			t.Errorf("%d calls in 95 s, want one every 10 s", n)
		}
	})
}

// When the clock is set back nothing waits longer than it may.
func TestClockBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shift atomic.Int64
		r := open(t, Options{Now: func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }})
		c := r.create(1)
		synctest.Wait()
		shift.Store(int64(-time.Hour))
		must(t, c.SetState(1))
		received(t, c, 1)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		r.same()
	})
}
