package actorstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// leaseTTL is how long the leases of these tests last, which run in time that is
// made up.
const leaseTTL = 9 * time.Second

// A machine is a host with an engine of its own that can fail, and its own wall clock.
type machine struct {
	*Store
	eng *faultkv.Engine
	set atomic.Int64 // ns by which the clock is wrong
}

// boot opens a host on an engine that others use, too. It is closed when the test
// ends.
func boot(t testing.TB, below kv.Engine, o HostOptions) *machine {
	t.Helper()
	m := &machine{eng: faultkv.New(anywhere{below})}
	m.open(t, o)
	return m
}

func (m *machine) open(t testing.TB, o HostOptions) {
	t.Helper()
	if o.TTL == 0 {
		o.TTL = leaseTTL
	}
	s, err := Open(ctx, m.eng, &Options{Host: o, Now: func() time.Time { return time.Now().Add(time.Duration(m.set.Load())) }})
	must(t, err)
	m.Store = s
	t.Cleanup(func() {
		m.eng.Heal()
		must(t, s.Close())
	})
}

// die ends what renews the lease, and nothing else: as when the process was killed.
func (m *machine) die() {
	h := m.hosting.now.Load()
	h.stop()
	<-h.done
}

// take opens the actor testID, until the test ends.
func (m *machine) take(t testing.TB, opts *ActorOptions) *Actor {
	t.Helper()
	a, err := m.Actor(ctx, testID, opts)
	must(t, err)
	t.Cleanup(func() { must(t, a.Close()) })
	return a
}

// renewals matches the commits that write the row of m's host.
func (m *machine) renewals() faultkv.Match {
	key := m.hosting.now.Load().key
	return func(op faultkv.Op) bool { return writes(op.Commit, key) }
}

// inTime runs a test in time that is made up.
func inTime(t *testing.T, test func(t *testing.T)) { synctest.Test(t, test) }

// hostRows returns the names of the hosts that have a row.
func hostRows(t testing.TB, s *Store) (names []string) {
	t.Helper()
	for h, err := range s.Hosts(ctx) {
		must(t, err)
		names = append(names, h.Name)
	}
	return names
}

var waitFor, force = &ActorOptions{Wait: true}, &ActorOptions{Force: true}

// TestLeaseCounts: while the lease holds nothing is read to learn whose an actor is, and
// taking one takes one range, with the row of a host that has ended.
func TestLeaseCounts(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, HostOptions{}), boot(t, below, HostOptions{})
		a := one.take(t, nil)
		for i := range 50 {
			must(t, a.Put(ctx, user(fmt.Sprint(i)), []byte("v")))
		}
		snap, err := a.Snapshot(ctx)
		must(t, err)
		want := func(what string, eng *faultkv.Engine, want faultkv.Counts, do func()) {
			t.Helper()
			eng.Reset()
			do()
			got := eng.Counts()
			got.Durable, got.Ops, got.Bytes = 0, 0, 0
			if got != want {
				t.Errorf("%s: got %+v, want %+v", what, got, want)
			}
		}
		want("Owned", one.eng, faultkv.Counts{}, func() { must(t, a.Owned(ctx)) })
		want("Page", one.eng, faultkv.Counts{Gets: 1}, func() { must(t, second(a.Page(ctx, user("1"), nil))) })
		want("Get", one.eng, faultkv.Counts{Scans: 1}, func() { must(t, second(a.Get(ctx, user("1"), nil))) })
		want("List", one.eng, faultkv.Counts{Scans: 1}, func() { words(t, a, ListOptions{}) })
		want("Snapshot.List", one.eng, faultkv.Counts{Scans: 1}, func() { words(t, snap, ListOptions{}) })
		want("Put", one.eng, faultkv.Counts{Commits: 1, Scans: 1}, func() { must(t, a.Put(ctx, user("1"), nil)) })
		must(t, snap.Close())
		want("Close", one.eng, faultkv.Counts{Commits: 1}, func() { must(t, a.Close()) })

		want("the first actor", two.eng, faultkv.Counts{Scans: 1, Commits: 2}, func() { a = two.take(t, nil) })
		must(t, a.Close())
		want("the next one", two.eng, faultkv.Counts{Scans: 1, Commits: 1}, func() { a = two.take(t, nil) })
		var more []ID
		for range 3 {
			id := NewID()
			b, err := two.Actor(ctx, id, nil)
			must(t, err)
			must(t, b.Put(ctx, user("k"), nil))
			more = append(more, id)
		}
		must(t, two.Close())
		want("one of a host that has ended", one.eng, faultkv.Counts{Scans: 1, Gets: 1, Commits: 1}, func() { one.take(t, nil) })
		want("more of them", one.eng, faultkv.Counts{Scans: 3, Commits: 3}, func() {
			for _, id := range more {
				b, err := one.Actor(ctx, id, nil)
				must(t, err)
				t.Cleanup(func() { must(t, b.Close()) })
			}
		})
	})
}

// TestLeaseRenewals: three in a TTL, whatever the actors do, and none before the first
// or after the end.
func TestLeaseRenewals(t *testing.T) {
	inTime(t, func(t *testing.T) {
		m := boot(t, memkv.New(), HostOptions{Name: "one"})
		commits := func(pass time.Duration) int64 {
			m.eng.Reset()
			time.Sleep(pass)
			synctest.Wait()
			return m.eng.Counts().Commits
		}
		if n := commits(time.Hour); n != 0 || !m.Host().ID.IsZero() {
			t.Errorf("nothing is owned, and there are %d commits", n)
		}
		a := m.take(t, nil)
		if h := m.Host(); h.Name != "one" || h.TTL != leaseTTL || h.Expires != time.Now().Add(leaseTTL) {
			t.Errorf("got %+v", h)
		}
		if n := commits(10 * leaseTTL); n != 30 {
			t.Errorf("%d renewals in ten TTLs", n)
		}
		must(t, a.Owned(ctx))
		must(t, m.Close())
		if n := commits(time.Hour); n != 0 {
			t.Errorf("%d renewals of a closed store", n)
		}
		s := openStore(t, m.eng, m.Limits())
		if got := hostRows(t, s); len(got) != 0 {
			t.Errorf("left are %q", got)
		}
	})
}

// TestInUseByHost: a host that is alive has its actors, and says who it is. They are to be
// had as soon as they are closed.
func TestInUseByHost(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, HostOptions{Name: "one"}), boot(t, below, HostOptions{})
		a := one.take(t, nil)
		must(t, a.Put(ctx, user("k"), []byte("v")))
		time.Sleep(10 * leaseTTL)
		_, err := two.Actor(ctx, testID, nil)
		var in *InUseError
		if !errors.Is(err, ErrInUse) || !errors.As(err, &in) || in.Host != one.Host() {
			t.Errorf("got %v", err)
		}
		if got, err := two.Owner(ctx, testID); got != one.Host() || err != nil {
			t.Errorf("its owner is %+v, %v", got, err)
		}
		must(t, a.Put(ctx, user("k"), []byte("w")))
		must(t, a.Owned(ctx))
		if got, _ := get(t, two.take(t, closeFirst(t, a)), user("k")); got != "w" {
			t.Errorf("got %q", got)
		}
		if got, err := one.Owner(ctx, testID); got.ID != two.Host().ID || err != nil {
			t.Errorf("its owner is %+v, %v", got, err)
		}
		for info, err := range one.Actors(ctx, nil) {
			if must(t, err); info.Host != two.Host().ID {
				t.Errorf("got %+v", info)
			}
		}
	})
}

func closeFirst(t testing.TB, a *Actor) *ActorOptions {
	must(t, a.Close())
	return nil
}

// TestWaitForClose: who waits has the actor soon after it was closed, and doesn't ask
// without pause.
func TestWaitForClose(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, HostOptions{}), boot(t, below, HostOptions{})
		a := one.take(t, nil)
		opened := make(chan *Actor)
		begin := time.Now()
		go func() { opened <- two.take(t, waitFor) }()
		time.Sleep(10 * leaseTTL)
		c := two.eng.Counts()
		if asked := c.Scans + c.Gets; asked > 2*35 {
			t.Errorf("%d reads in %v", asked, time.Since(begin))
		}
		closed := time.Now()
		must(t, a.Close())
		must(t, (<-opened).Owned(ctx))
		if took := time.Since(closed); took > leaseTTL/3 {
			t.Errorf("it took %v", took)
		}
	})
}

// TestWaitEnds: with the context, or with the Store.
func TestWaitEnds(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, HostOptions{}), boot(t, below, HostOptions{})
		one.take(t, nil)
		hurry, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		begin := time.Now()
		_, err := two.Actor(hurry, testID, waitFor)
		if !errors.Is(err, ErrInUse) || !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		done := make(chan error)
		go func() { done <- second(two.Actor(ctx, testID, waitFor)) }()
		time.Sleep(time.Second)
		must(t, two.Close())
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("got %v, want %v", err, ErrClosed)
		}
	})
}

// TestForce: the host that has the actor gives that one up, and keeps the others. It
// has fenced its handle before the new one can write.
func TestForce(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, HostOptions{}), boot(t, below, HostOptions{})
		a := one.take(t, nil)
		must(t, a.Put(ctx, user("k"), []byte("v")))
		b, err := one.Actor(ctx, IDFromName("other"), nil)
		must(t, err)
		snap, err := a.Snapshot(ctx)
		must(t, err)
		host, begin := one.Host().ID, time.Now()
		two.take(t, force)
		if took := time.Since(begin); took > leaseTTL/2 {
			t.Errorf("it took %v", took)
		}
		if err := a.Err(); !errors.Is(err, ErrFenced) || !errors.Is(err, errWanted) {
			t.Errorf("the handle: %v", err)
		}
		checkRefused(t, a, ErrFenced)
		if _, err := snap.Page(ctx, user("k"), nil); !errors.Is(err, ErrFenced) {
			t.Errorf("the snapshot: %v", err)
		}
		must(t, snap.Close())
		must(t, b.Put(ctx, user("k"), nil))
		must(t, b.Owned(ctx))
		must(t, b.Close())
		time.Sleep(5 * leaseTTL)
		if got := one.Host().ID; got != host {
			t.Errorf("the host was %s, and is %s", host, got)
		}
		must(t, a.Close())
		must(t, one.take(t, force).Put(ctx, user("k"), []byte("back")))
	})
}

// TestDeadHost: the actors of a host that died are to be had when nothing was renewed
// for a TTL, whatever the clocks say, and at once when it died long ago by all clocks.
func TestDeadHost(t *testing.T) {
	for name, tt := range map[string]struct {
		set, passed time.Duration // the clock of the one that died; how long ago that was
		skew        time.Duration
		atOnce      bool
		want        time.Duration // how long that takes; 0: a TTL and its margin, unless at once
	}{
		"just now":                 {},
		"just now, clock behind":   {set: -30 * time.Second},
		"just now, clock ahead":    {set: 24 * time.Hour},
		"within the skew":          {passed: 60 * time.Second, want: leaseTTL + time.Millisecond},
		"long ago":                 {passed: 70 * time.Second, atOnce: true},
		"long ago, clock behind":   {set: -30 * time.Second, passed: 40 * time.Second, atOnce: true},
		"long ago, clock ahead":    {set: 24 * time.Hour, passed: time.Hour},
		"long ago, other skew":     {skew: time.Hour, passed: time.Hour, want: leaseTTL + time.Millisecond},
		"long ago, less skew":      {skew: time.Millisecond, passed: 10 * time.Second, atOnce: true},
		"long ago, no clocks":      {skew: -1, passed: 1000 * time.Hour},
		"long ago, by little skew": {skew: time.Millisecond, passed: 8 * time.Second, want: time.Second + 2*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T) {
				below := memkv.New()
				one, two := &machine{eng: faultkv.New(anywhere{below})}, boot(t, below, HostOptions{MaxClockSkew: tt.skew})
				one.set.Store(int64(tt.set))
				one.open(t, HostOptions{})
				a := one.take(t, nil)
				must(t, a.Put(ctx, user("k"), []byte("v")))
				one.die()
				time.Sleep(tt.passed)
				if tt.passed > leaseTTL {
					// It answers still, and can tell by a look at the head.
					must(t, a.Owned(ctx))
				}
				begin := time.Now()
				b := two.take(t, waitFor)
				took, want := time.Since(begin), leaseTTL+margin(leaseTTL)
				if tt.atOnce || tt.want > 0 {
					want = tt.want
				}
				if took < want || took > want+2*time.Millisecond {
					t.Errorf("it took %v, want %v", took, want)
				}
				if got, _ := get(t, b, user("k")); got != "v" {
					t.Errorf("got %q", got)
				}
				must(t, b.Put(ctx, user("k"), []byte("w")))
				if _, err := a.Get(ctx, user("k"), nil); !errors.Is(err, ErrFenced) {
					t.Errorf("the dead one reads: %v", err)
				}
				checkRefused(t, a, ErrFenced)
			})
		})
	}
}

// TestDeadHostSeenBefore: who asked and didn't wait has the actor when it asks again
// after a TTL.
func TestDeadHostSeenBefore(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, HostOptions{}), boot(t, below, HostOptions{})
		one.take(t, nil)
		one.die()
		for _, pass := range []time.Duration{0, leaseTTL, margin(leaseTTL)} {
			time.Sleep(pass)
			if _, err := two.Actor(ctx, testID, nil); !errors.Is(err, ErrInUse) {
				t.Errorf("after %v more: got %v, want %v", pass, err, ErrInUse)
			}
		}
		time.Sleep(time.Millisecond)
		two.take(t, nil)
	})
}

// TestHungHost: its renewals hang while it is replaced. When they come through it has
// lost every actor, and the next one is its own by another lease.
func TestHungHost(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, HostOptions{}), boot(t, below, HostOptions{})
		a := one.take(t, nil)
		must(t, a.Put(ctx, user("k"), []byte("v")))
		other, err := one.Actor(ctx, NewID(), nil)
		must(t, err)
		host := one.Host().ID
		p := one.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Match: one.renewals(), Times: faultkv.Forever})
		<-p.Reached()
		b := two.take(t, force)
		must(t, b.Put(ctx, user("k"), []byte("w")))
		if _, err := a.Page(ctx, user("k"), nil); !errors.Is(err, ErrFenced) {
			t.Errorf("got %v, want %v", err, ErrFenced)
		}
		must(t, other.Owned(ctx)) // nobody has taken it, and the head says so
		p.Release()
		time.Sleep(leaseTTL / 3)
		synctest.Wait()
		for _, a := range []*Actor{a, other} {
			if !errors.Is(a.Err(), ErrFenced) {
				t.Errorf("actor %s: %v", a.ID(), a.Err())
			}
			must(t, a.Close())
		}
		must(t, b.Close())
		a = one.take(t, nil)
		must(t, a.Owned(ctx))
		if got := one.Host().ID; got == host || got.IsZero() {
			t.Errorf("the host was %s, and is %s", host, got)
		}
		if got, _ := get(t, a, user("k")); got != "w" {
			t.Errorf("got %q", got)
		}
	})
}

// TestReadAcrossTakeover: a read that was under way while its owner was replaced gives
// no answer, wherever it stood still.
func TestReadAcrossTakeover(t *testing.T) {
	for _, read := range []func(a *Actor) error{
		func(a *Actor) error { return second(a.Page(ctx, user("k"), nil)) },
		func(a *Actor) error { return second(a.Get(ctx, user("k"), nil)) },
		func(a *Actor) error { return second(a.GetMany(ctx, [][]byte{user("k")})) },
	} {
		inTime(t, func(t *testing.T) {
			below := memkv.New()
			one, two := boot(t, below, HostOptions{}), boot(t, below, HostOptions{})
			a := one.take(t, nil)
			must(t, a.Put(ctx, user("k"), []byte("v")))
			reached, resume := make(chan struct{}), make(chan struct{})
			held := false
			one.eng.Hook(func(op faultkv.Op) error {
				if at := append(op.Key, op.Range.Start...); !held && bytes.HasPrefix(at, a.space.prefix[:]) {
					held = true
					close(reached)
					<-resume
				}
				return nil
			})
			done := make(chan error)
			go func() { done <- read(a) }()
			<-reached
			one.die()
			must(t, two.take(t, waitFor).Put(ctx, user("k"), []byte("w")))
			close(resume)
			if err := <-done; !errors.Is(err, ErrFenced) {
				t.Errorf("got %v, want %v", err, ErrFenced)
			}
		})
	}
}

// TestRenewalFails: until the lease is over nobody notices; then every answer costs a
// look at the head; and when the engine doesn't say, nothing is answered.
func TestRenewalFails(t *testing.T) {
	inTime(t, func(t *testing.T) {
		m := boot(t, memkv.New(), HostOptions{})
		a := m.take(t, nil)
		must(t, a.Put(ctx, user("k"), []byte("v")))
		host := m.Host().ID
		reads := func() int64 {
			m.eng.Reset()
			must(t, a.Owned(ctx))
			return m.eng.Counts().Gets
		}
		fault := m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Match: m.renewals(), Times: faultkv.Forever})
		time.Sleep(leaseTTL - margin(leaseTTL) - time.Millisecond)
		if n := reads(); n != 0 {
			t.Errorf("the lease holds, and there are %d reads", n)
		}
		time.Sleep(time.Millisecond)
		if n := reads(); n != 1 {
			t.Errorf("the lease is over, and there are %d reads", n)
		}
		if n := fault.Hits(); n < 3 || n > 40 {
			t.Errorf("%d renewals were tried", n)
		}
		m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeGet, Times: faultkv.Forever, Err: errTest})
		if err := a.Owned(ctx); !errors.Is(err, ErrLeaseLost) || !errors.Is(err, errTest) || errors.Is(err, ErrFenced) {
			t.Errorf("got %v, want %v", err, ErrLeaseLost)
		}
		must(t, a.Err())
		m.eng.Heal()
		time.Sleep(leaseTTL / 3)
		synctest.Wait()
		if n := reads(); n != 0 || m.Host().ID != host {
			t.Errorf("the lease is renewed, and there are %d reads; the host is %s, was %s", n, m.Host().ID, host)
		}
	})
}

// TestRenewalUnknown: a renewal whose outcome nobody knows counts for nothing, landed
// or not, and the next one finds out.
func TestRenewalUnknown(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply} {
		inTime(t, func(t *testing.T) {
			m := boot(t, memkv.New(), HostOptions{})
			a := m.take(t, nil)
			h := m.hosting.now.Load()
			before := h.term.Load()
			f := m.eng.Fail(faultkv.Rule{Point: point, Match: m.renewals(), Err: kv.ErrUnknownOutcome})
			time.Sleep(leaseTTL / 3)
			synctest.Wait()
			if f.Hits() != 1 || h.term.Load() != before {
				t.Errorf("%d renewals failed, and the lease is a new one: %v", f.Hits(), h.term.Load() != before)
			}
			time.Sleep(leaseTTL / 24)
			synctest.Wait()
			if h.term.Load() == before {
				t.Error("the lease was not renewed after that")
			}
			must(t, a.Owned(ctx))
			if h.isLost() {
				t.Error("the lease is lost")
			}
		})
	}
}

// TestRenewalHangs: one that takes longer than the lease begins one that is over, and
// doesn't keep Close from ending.
func TestRenewalHangs(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply} {
		inTime(t, func(t *testing.T) {
			m := boot(t, memkv.New(), HostOptions{})
			a := m.take(t, nil)
			p := m.eng.Pause(faultkv.Rule{Point: point, Match: m.renewals(), Times: faultkv.Forever})
			<-p.Reached()
			time.Sleep(leaseTTL)
			synctest.Wait()
			m.eng.Reset()
			must(t, a.Owned(ctx))
			if n := m.eng.Counts().Gets; n != 1 {
				t.Errorf("the lease is over, and there are %d reads", n)
			}
			closed := make(chan error)
			go func() { closed <- m.Close() }()
			time.Sleep(time.Second)
			p.Release()
			must(t, <-closed)
			if got := hostRows(t, openStore(t, m.eng, m.Limits())); len(got) > 0 {
				t.Errorf("left are %q", got)
			}
		})
	}
}

// TestClockJump: a wall clock that is set, or a suspend that only it has noticed, makes
// the lease doubtful until it is renewed, which is soon.
func TestClockJump(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, leaseTTL, -time.Hour, -leaseTTL} {
		inTime(t, func(t *testing.T) {
			m := boot(t, memkv.New(), HostOptions{})
			a := m.take(t, nil)
			time.Sleep(time.Second)
			m.set.Add(int64(jump))
			m.eng.Reset()
			must(t, a.Owned(ctx))
			if n := m.eng.Counts().Gets; n != 1 {
				t.Errorf("%v: %d reads, want one of the head", jump, n)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			m.eng.Reset()
			must(t, a.Owned(ctx))
			if n := m.eng.Counts().Gets; n != 0 {
				t.Errorf("%v, and renewed: %d reads", jump, n)
			}
		})
	}
}

// TestEngineOutage: that nobody could renew while the engine was out of reach is no
// sign that a host died.
func TestEngineOutage(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, HostOptions{}), boot(t, below, HostOptions{})
		a := one.take(t, nil)
		two.take2(t)
		out := one.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever})
		two.eng.Fail(faultkv.Rule{Point: faultkv.BeforeGet})
		if err := second(two.Actor(ctx, testID, nil)); !errors.Is(err, ErrInUse) && !errors.Is(err, faultkv.ErrInjected) {
			t.Errorf("got %v", err)
		}
		time.Sleep(2 * leaseTTL)
		if err := second(two.Actor(ctx, testID, nil)); !errors.Is(err, ErrInUse) {
			t.Errorf("right after the outage: got %v, want %v", err, ErrInUse)
		}
		out.Remove()
		time.Sleep(leaseTTL / 3)
		must(t, a.Owned(ctx))
	})
}

// take2 tries to open the actor, and sees who has it.
func (m *machine) take2(t testing.TB) {
	t.Helper()
	if err := second(m.Actor(ctx, testID, nil)); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v, want %v", err, ErrInUse)
	}
}

// TestRestarted: a process that was killed doesn't keep the one after it waiting, if
// the name proves that it is the same host.
func TestRestarted(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after HostOptions
		ended, atOnce bool
	}{
		"killed":                  {HostOptions{Name: "a"}, HostOptions{Name: "a"}, true, true},
		"it runs":                 {HostOptions{Name: "a"}, HostOptions{Name: "a"}, false, false},
		"another name":            {HostOptions{Name: "a"}, HostOptions{Name: "b"}, true, false},
		"no name":                 {HostOptions{}, HostOptions{}, true, false},
		"promised":                {HostOptions{Name: "a"}, HostOptions{Name: "a", Sole: true}, false, true},
		"promised of another one": {HostOptions{Name: "b"}, HostOptions{Name: "a", Sole: true}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T) {
				below := memkv.New()
				one, two := boot(t, below, tt.before), boot(t, below, tt.after)
				two.hosting.gone = func(row *hostRow) bool { return tt.ended }
				a := one.take(t, nil)
				must(t, a.Put(ctx, user("k"), nil))
				one.die()
				begin := time.Now()
				two.take(t, waitFor)
				if took := time.Since(begin); (took == 0) != tt.atOnce {
					t.Errorf("it took %v", took)
				}
				time.Sleep(leaseTTL) // which it doesn't answer for if it has ended
				checkRefused(t, a, ErrFenced)
			})
		})
	}
}

// TestLeaseOptions: what makes no sense is refused when the store is opened.
func TestLeaseOptions(t *testing.T) {
	for _, o := range []HostOptions{
		{TTL: -1}, {TTL: time.Millisecond}, {TTL: 2 * time.Hour}, {Sole: true}, {Name: "\xff"},
		{Name: string(make([]byte, MaxName+1))},
	} {
		if _, err := Open(ctx, anywhere{memkv.New()}, &Options{Host: o}); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// TestOnlyLooking: who owns nothing has no lease, and a Store that only reads writes
// nothing.
func TestOnlyLooking(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one := boot(t, below, HostOptions{})
		must(t, one.take(t, nil).Put(ctx, user("k"), []byte("v")))
		eng := faultkv.New(anywhere{below})
		for _, readOnly := range []bool{false, true} {
			s, err := Open(ctx, eng, &Options{ReadOnly: readOnly})
			must(t, err)
			v, err := s.View(ctx, testID)
			must(t, err)
			if got, _ := get(t, v, user("k")); got != "v" {
				t.Errorf("got %q", got)
			}
			must(t, second(s.Owner(ctx, testID)))
			if got := hostRows(t, s); len(got) != 1 {
				t.Errorf("the hosts are %q", got)
			}
			time.Sleep(10 * leaseTTL)
			must(t, errors.Join(v.Close(), s.Close()))
		}
		if n := eng.Counts().Commits; n != 0 {
			t.Errorf("%d commits", n)
		}
	})
}

// TestLeaseOfOneProcess: where one process has the engine there are neither leases nor
// owners.
func TestLeaseOfOneProcess(t *testing.T) {
	inTime(t, func(t *testing.T) {
		eng := memkv.New()
		s := openStore(t, eng, smallForks)
		must(t, openActor(t, s).Put(ctx, user("k"), nil))
		time.Sleep(time.Hour)
		for e, err := range eng.Scan(ctx, kv.Range{}) {
			must(t, err)
			_, part, ok := parseHeadKey(e.Key)
			if ok && part == headOwner || bytes.HasPrefix(e.Key, appendRow(nil, rowHost)) {
				t.Errorf("there is a row %x", e.Key)
			}
		}
		if h, err := s.Owner(ctx, testID); !h.ID.IsZero() || err != nil || !s.Host().ID.IsZero() {
			t.Errorf("the owner is %+v, %v", h, err)
		}
	})
}

// TestDropOfHost: an actor that is dropped is nobody's, and can be begun anew elsewhere.
func TestDropOfHost(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, HostOptions{}), boot(t, below, HostOptions{})
		a, err := one.Named(ctx, "n", nil)
		must(t, err)
		must(t, a.Put(ctx, user("k"), nil))
		id := a.ID()
		must(t, a.Drop(ctx))
		rec, err := loadRecord(ctx, below, id)
		if must(t, err); rec.row != nil || rec.owner != nil || rec.name != "" {
			t.Errorf("left is %+v", rec)
		}
		a, err = two.Named(ctx, "n", nil)
		must(t, err)
		must(t, a.Put(ctx, user("k"), nil))
		must(t, a.Close())
	})
}

// TestForkOfHost: a fork belongs to nobody when it is made, and to its maker meanwhile.
func TestForkOfHost(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, HostOptions{}), boot(t, below, HostOptions{})
		a := one.take(t, nil)
		must(t, a.Put(ctx, user("k"), []byte("v")))
		snap, err := a.Snapshot(ctx)
		must(t, err)
		to := NewID()
		_, err = one.Fork(ctx, snap, &ForkOptions{ID: to, Progress: func(int64) {
			if err := second(two.Actor(ctx, to, nil)); !errors.Is(err, ErrInUse) {
				t.Errorf("meanwhile: got %v, want %v", err, ErrInUse)
			}
		}})
		must(t, errors.Join(err, snap.Close()))
		b, err := two.Actor(ctx, to, &ActorOptions{MustExist: true})
		must(t, err)
		must(t, b.Put(ctx, user("k"), nil))
		must(t, b.Close())
	})
}

// TestOldStore: an actor whose owner knew nothing of leases is free, and that owner
// finds out by its head.
func TestOldStore(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, HostOptions{}), boot(t, below, HostOptions{})
		a := one.take(t, nil)
		must(t, a.Put(ctx, user("k"), nil))
		one.die()
		h := a.host
		h.term.Store(nil) // it always looks
		must(t, below.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Clear(h.key), kv.Clear(headOwnerKey(testID))}}))
		two.take(t, nil)
		checkRefused(t, a, ErrFenced)
	})
}

// TestUnclaim: what Close can't tell the engine now is told with a renewal, and a claim
// of which nobody knows whether it landed doesn't lock others out.
func TestUnclaim(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, HostOptions{}), boot(t, below, HostOptions{})
		a := one.take(t, nil)
		key := headOwnerKey(testID)
		touches := func(op faultkv.Op) bool {
			return slices.ContainsFunc(op.Commit.Ops, func(o kv.Op) bool { return bytes.Equal(o.Key, key) })
		}
		one.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Match: touches})
		must(t, a.Close())
		two.take2(t)
		time.Sleep(leaseTTL / 3)
		synctest.Wait()
		a = two.take(t, nil)
		must(t, a.Close())
		one.eng.Fail(faultkv.Rule{Point: faultkv.AfterApply, Match: touches, Err: kv.ErrUnknownOutcome})
		if err := second(one.Actor(ctx, testID, nil)); !errors.Is(err, kv.ErrUnknownOutcome) {
			t.Errorf("got %v, want %v", err, kv.ErrUnknownOutcome)
		}
		two.take2(t)
		time.Sleep(leaseTTL / 3)
		synctest.Wait()
		two.take(t, nil)
		h := one.hosting.now.Load()
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.unclaimed) != 0 || len(h.handles) != 0 {
			t.Errorf("left are %v, %v", h.unclaimed, slices.Collect(maps.Keys(h.handles)))
		}
	})
}

// TestCrashBeforeClaim: a host that died between its own row and the first claim is in
// nobody's way, and its row is removed in time.
func TestCrashBeforeClaim(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, HostOptions{Name: "one"}), boot(t, below, HostOptions{Name: "two"})
		one.eng.Fail(faultkv.Rule{Point: faultkv.BeforeScan})
		if err := second(one.Actor(ctx, testID, nil)); !errors.Is(err, faultkv.ErrInjected) {
			t.Errorf("got %v, want %v", err, faultkv.ErrInjected)
		}
		one.die()
		two.take(t, nil)
		if got := hostRows(t, two.Store); len(got) != 2 {
			t.Errorf("the hosts are %q", got)
		}
		if found := problems(t, two.Store); len(found) > 0 {
			t.Errorf("findings: %v", found)
		}
		time.Sleep((sweepEvery + 1) * leaseTTL / 3)
		synctest.Wait()
		if got := hostRows(t, two.Store); !slices.Equal(got, []string{"two"}) {
			t.Errorf("the hosts are %q", got)
		}
	})
}

// TestRegistrationFails: the opening fails, and the next one begins anew.
func TestRegistrationFails(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply} {
		inTime(t, func(t *testing.T) {
			m := boot(t, memkv.New(), HostOptions{})
			m.eng.Fail(faultkv.Rule{Point: point, Err: kv.ErrUnknownOutcome})
			if err := second(m.Actor(ctx, testID, nil)); !errors.Is(err, kv.ErrUnknownOutcome) {
				t.Errorf("got %v, want %v", err, kv.ErrUnknownOutcome)
			}
			must(t, m.take(t, nil).Owned(ctx))
		})
	}
}

// TestCloseTellsNobody: a Store that can't end its lease says so, and keeps nobody
// waiting for more than the rest of it.
func TestCloseTellsNobody(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, HostOptions{}), boot(t, below, HostOptions{})
		one.take(t, nil)
		one.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever, Err: errTest})
		if err := one.Close(); !errors.Is(err, errTest) {
			t.Errorf("got %v, want %v", err, errTest)
		}
		two.take(t, waitFor)
	})
}

// TestDamagedHostRows: they are found, and nobody takes an actor over on the strength of
// one.
func TestDamagedHostRows(t *testing.T) {
	inTime(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, HostOptions{}), boot(t, below, HostOptions{})
		must(t, one.take(t, nil).Put(ctx, user("k"), nil))
		one.die()
		key, row := hostKey(one.Host().ID), one.hosting.now.Load().stored
		for _, set := range []kv.Op{kv.Set(headOwnerKey(testID), []byte("x")), kv.Set(key, []byte("x"))} {
			old, err := below.Get(ctx, set.Key, nil)
			must(t, err)
			must(t, below.Commit(ctx, &kv.Commit{Ops: []kv.Op{set}}))
			if err := second(two.Actor(ctx, testID, waitFor)); !errors.Is(err, ErrCorrupt) {
				t.Errorf("got %v, want %v", err, ErrCorrupt)
			}
			if err := second(two.Owner(ctx, testID)); !errors.Is(err, ErrCorrupt) {
				t.Errorf("got %v, want %v", err, ErrCorrupt)
			}
			if found := problems(t, two.Store); len(found) != 1 || found[0].Harmless {
				t.Errorf("findings: %v", found)
			}
			must(t, below.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(set.Key, old)}}))
		}
		must(t, below.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(key, row), kv.Set(headOwnerKey(NewID()), testOwner.append(nil))}}))
		if found := problems(t, two.Store); len(found) != 1 {
			t.Errorf("findings: %v", found)
		}
		two.take(t, waitFor)
	})
}
