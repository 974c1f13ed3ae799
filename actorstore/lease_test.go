package actorstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// leaseTTL is how long the leases of these tests last, which run in time that is
// made up.
const leaseTTL = 9 * time.Second

// leaseMargin is by how much earlier the owner of such a lease counts it as over, and by how much
// later another host does.
const leaseMargin = leaseTTL / 10

// A machine is a host with an engine of its own that can fail, and its own wall clock.
type machine struct {
	*actorstore.Store
	eng  *faultkv.Engine
	rows *hostRow      // below eng
	set  atomic.Int64  // ns by which the clock is wrong
	over chan struct{} // closed when the test ends
}

// boot opens a host on an engine that others use, too. It is closed when the test
// ends.
func boot(t testing.TB, below kv.Engine, o actorstore.HostOptions) *machine {
	t.Helper()
	m := newMachine(below)
	m.open(t, o)
	return m
}

// newMachine returns a machine without a Store.
func newMachine(below kv.Engine) *machine {
	m := &machine{rows: &hostRow{Engine: below}}
	m.eng = faultkv.New(engines.Shared(m.rows))
	return m
}

// hostID returns what other hosts know the machine by, the zero HostID before it has owned an actor.
func (m *machine) hostID() actorstore.HostID {
	if id := m.rows.id.Load(); id != nil {
		return *id
	}
	return actorstore.HostID{}
}

// hostInfo returns what is stored of the machine's host.
func (m *machine) hostInfo() actorstore.HostInfo {
	for h, err := range m.Hosts(ctx) {
		if err == nil && h.ID == m.hostID() {
			return h
		}
	}
	return actorstore.HostInfo{}
}

// A hostRow is an engine that notes of which host a row was stored last.
type hostRow struct {
	kv.Engine
	id atomic.Pointer[actorstore.HostID]
}

// Commit is kv.Engine's.
func (r *hostRow) Commit(ctx context.Context, c *kv.Commit) error {
	var stored *actorstore.HostID
	for _, o := range c.Ops {
		if id, ok := layout.ParseHostKey(o.Key); ok && o.Kind == kv.OpSet {
			stored = (*actorstore.HostID)(&id)
		}
	}
	err := r.Engine.Commit(ctx, c)
	if err == nil && stored != nil {
		r.id.Store(stored)
	}
	return err
}

func (m *machine) open(t testing.TB, o actorstore.HostOptions) {
	t.Helper()
	if o.TTL == 0 {
		o.TTL = leaseTTL
	}
	m.over = make(chan struct{})
	s, err := actorstore.Open(ctx, m.eng, &actorstore.Options{Host: o, Now: func() time.Time { return time.Now().Add(time.Duration(m.set.Load())) }})
	must(t, err)
	m.Store = s
	t.Cleanup(func() {
		close(m.over)
		m.eng.Heal()
		must(t, s.Close())
	})
}

// die ends what renews the lease, and nothing else: as when the process was killed. The next
// renewal stands still until the test ends.
func (m *machine) die() {
	renewal := m.renewals()
	m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever, Match: func(op faultkv.Op) bool {
		if renewal(op) {
			<-m.over
		}
		return false
	}})
}

// take opens the actor testID, until the test ends.
func (m *machine) take(t testing.TB, opts *actorstore.ActorOptions) *actorstore.Actor {
	t.Helper()
	a, err := m.Actor(ctx, testID, opts)
	must(t, err)
	t.Cleanup(func() { must(t, a.Close()) })
	return a
}

// renewals matches the commits that write the row of m's host.
func (m *machine) renewals() faultkv.Match {
	key := layout.HostKey(m.hostID())
	return func(op faultkv.Op) bool { return writes(op.Commit, key) }
}

// hostRows returns the names of the hosts that have a row.
func hostRows(t testing.TB, s *actorstore.Store) (names []string) {
	t.Helper()
	for h, err := range s.Hosts(ctx) {
		must(t, err)
		names = append(names, h.Name)
	}
	return names
}

// TestLeaseCounts: while the lease holds nothing is read to learn whose an actor is, and
// taking one takes one range, with the row of a host that has ended. Giving one back waits for no disk.
func TestLeaseCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
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
			got.Ops, got.Bytes = 0, 0
			if got != want {
				t.Errorf("%s: got %+v, want %+v", what, got, want)
			}
		}
		want("Owned", one.eng, faultkv.Counts{}, func() { must(t, a.Owned(ctx)) })
		want("Page", one.eng, faultkv.Counts{Gets: 1}, func() { must(t, second(a.Page(ctx, user("1"), nil))) })
		want("Get", one.eng, faultkv.Counts{Scans: 1}, func() { must(t, second(a.Get(ctx, user("1"), nil))) })
		want("List", one.eng, faultkv.Counts{Scans: 1}, func() { words(t, a, actorstore.ListOptions{}) })
		want("Snapshot.List", one.eng, faultkv.Counts{Scans: 1}, func() { words(t, snap, actorstore.ListOptions{}) })
		want("Put", one.eng, faultkv.Counts{Commits: 1, Durable: 1}, func() { must(t, a.Put(ctx, user("1"), nil)) })
		must(t, snap.Close())
		want("Close", one.eng, faultkv.Counts{Commits: 1}, func() { must(t, a.Close()) })

		want("the first actor", two.eng, faultkv.Counts{Scans: 1, Commits: 2, Durable: 2}, func() { a = two.take(t, nil) })
		must(t, a.Close())
		want("the next one", two.eng, faultkv.Counts{Scans: 1, Commits: 1, Durable: 1}, func() { a = two.take(t, nil) })
		var more []actorstore.ID
		for range 3 {
			id := actorstore.NewID()
			b, err := two.Actor(ctx, id, nil)
			must(t, err)
			must(t, b.Put(ctx, user("k"), nil))
			more = append(more, id)
		}
		must(t, two.Close())
		want("one of a host that has ended", one.eng, faultkv.Counts{Scans: 1, Gets: 1, Commits: 1, Durable: 1}, func() { one.take(t, nil) })
		want("more of them", one.eng, faultkv.Counts{Scans: 3, Commits: 3, Durable: 3}, func() {
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
	synctest.Test(t, func(t *testing.T) {
		m := boot(t, memkv.New(), actorstore.HostOptions{Name: "one"})
		commits := func(pass time.Duration) int64 {
			m.eng.Reset()
			time.Sleep(pass)
			synctest.Wait()
			return m.eng.Counts().Commits
		}
		if n := commits(time.Hour); n != 0 || !m.hostID().IsZero() {
			t.Errorf("nothing is owned, and there are %d commits", n)
		}
		a := m.take(t, nil)
		if h := m.hostInfo(); h.Name != "one" || h.TTL != leaseTTL || h.Expires != time.Now().Add(leaseTTL) {
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
		s := openStore(t, m.eng, batch.Limits{})
		if got := hostRows(t, s); len(got) != 0 {
			t.Errorf("left are %q", got)
		}
	})
}

// TestRenewalFails: until the lease is over it isn't noticed; then every answer costs a
// look at the head; and when the engine doesn't say, nothing is answered.
func TestRenewalFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := boot(t, memkv.New(), actorstore.HostOptions{})
		a := m.take(t, nil)
		must(t, a.Put(ctx, user("k"), []byte("v")))
		host := m.hostID()
		reads := func() int64 {
			m.eng.Reset()
			must(t, a.Owned(ctx))
			return m.eng.Counts().Gets
		}
		fault := m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Match: m.renewals(), Times: faultkv.Forever})
		time.Sleep(leaseTTL - leaseMargin - time.Millisecond)
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
		if err := a.Owned(ctx); !errors.Is(err, actorstore.ErrLeaseLost) || !errors.Is(err, errTest) || errors.Is(err, actorstore.ErrFenced) {
			t.Errorf("got %v, want %v", err, actorstore.ErrLeaseLost)
		}
		must(t, a.Err())
		m.eng.Heal()
		time.Sleep(leaseTTL / 3)
		synctest.Wait()
		if n := reads(); n != 0 || m.hostID() != host {
			t.Errorf("the lease is renewed, and there are %d reads; the host is %s, was %s", n, m.hostID(), host)
		}
	})
}

// TestJoinAfterSilence: a host whose lease was given up while it hung learns that before
// it takes the next actor, which is then not fenced for what was. A renewal that was under
// way all the time and fails at last says nothing of that.
func TestJoinAfterSilence(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			below := memkv.New()
			one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
			a := one.take(t, nil)
			was, renewal := one.hostID(), one.renewals()
			over := make(chan struct{})
			one.eng.Hook(func(op faultkv.Op) error {
				if op.Point != faultkv.BeforeCommit || !renewal(op) {
					return nil
				}
				if hangs {
					<-over
				}
				return errTest
			})
			b := two.take(t, waitFor)
			one.eng.Hook(nil)
			if err := a.Owned(ctx); !errors.Is(err, actorstore.ErrFenced) {
				t.Errorf("got %v, want %v", err, actorstore.ErrFenced)
			}
			must(t, errors.Join(a.Close(), b.Close()))
			begin := time.Now()
			time.AfterFunc(time.Millisecond, func() { close(over) })
			a = one.take(t, nil)
			if took := time.Since(begin); took > leaseTTL/24+time.Millisecond {
				t.Errorf("it took %v", took)
			}
			time.Sleep(2 * leaseTTL)
			synctest.Wait()
			must(t, a.Owned(ctx))
			if now := one.hostID(); now == was {
				t.Errorf("it is still host %s", now)
			}
		})
	}
}

// TestJoinInSilence: when the engine doesn't renew the lease, a call that wants an actor
// doesn't wait for that for long, and not beyond the end of its context.
func TestJoinInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := boot(t, memkv.New(), actorstore.HostOptions{})
		a := m.take(t, nil)
		must(t, a.Close())
		m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Match: m.renewals(), Times: faultkv.Forever})
		time.Sleep(2 * leaseTTL)
		begin := time.Now()
		must(t, m.take(t, nil).Owned(ctx))
		if took := time.Since(begin); took > leaseTTL/12 {
			t.Errorf("it took %v", took)
		}
		hurry, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		begin = time.Now()
		if _, err := m.Actor(hurry, actorstore.NewID(), nil); time.Since(begin) > time.Millisecond {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}

// TestCloseSlow: Close gives the lease up also on an engine that is slow, and waits for one
// that doesn't answer for as long as the lease lasts.
func TestCloseSlow(t *testing.T) {
	for _, answer := range []time.Duration{leaseTTL * 2 / 3, leaseTTL * 2} {
		synctest.Test(t, func(t *testing.T) {
			below := memkv.New()
			one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
			must(t, one.take(t, nil).Close())
			must(t, two.take(t, nil).Close())
			pause := one.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
			begin := time.Now()
			time.AfterFunc(answer, pause.Release)
			err := one.Close()
			want := answer
			if answer > leaseTTL {
				want = leaseTTL
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
				}
			} else if rows := hostRows(t, two.Store); err != nil || len(rows) != 1 {
				t.Errorf("got %v, and there are %d hosts", err, len(rows))
			}
			if took := time.Since(begin); took != want {
				t.Errorf("it took %v, want %v", took, want)
			}
		})
	}
}

// TestRenewalHangs: one that takes longer than the lease begins one that is over, and
// doesn't keep Close from ending.
func TestRenewalHangs(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply} {
		synctest.Test(t, func(t *testing.T) {
			m := boot(t, memkv.New(), actorstore.HostOptions{})
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
			if got := hostRows(t, openStore(t, m.eng, batch.Limits{})); len(got) > 0 {
				t.Errorf("left are %q", got)
			}
		})
	}
}

// TestTermBegins: a lease counts from when its renewal was sent, and not from when the
// answer came.
func TestTermBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := boot(t, memkv.New(), actorstore.HostOptions{})
		a := m.take(t, nil)
		time.Sleep(leaseTTL/3 - time.Millisecond)
		p := m.eng.Pause(faultkv.Rule{Point: faultkv.AfterApply, Match: m.renewals()})
		<-p.Reached()
		sent := time.Now()
		time.Sleep(leaseTTL / 2)
		p.Release()
		m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Match: m.renewals(), Times: faultkv.Forever})
		synctest.Wait()
		for _, tt := range []struct {
			after time.Duration
			reads int64
		}{{leaseTTL - leaseMargin - time.Millisecond, 0}, {leaseTTL - leaseMargin, 1}} {
			time.Sleep(time.Until(sent.Add(tt.after)))
			m.eng.Reset()
			must(t, a.Owned(ctx))
			if n := m.eng.Counts().Gets; n != tt.reads {
				t.Errorf("%v after it was sent: %d reads, want %d", tt.after, n, tt.reads)
			}
		}
	})
}

// TestClockJump: a wall clock that is set, or a suspend that only it has noticed, makes
// the lease doubtful until it is renewed, which is soon.
func TestClockJump(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, leaseTTL, -time.Hour, -leaseTTL} {
		synctest.Test(t, func(t *testing.T) {
			m := boot(t, memkv.New(), actorstore.HostOptions{})
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

// TestLeaseOptions: what makes no sense is refused when the store is opened.
func TestLeaseOptions(t *testing.T) {
	for _, o := range []actorstore.HostOptions{
		{TTL: -1}, {TTL: time.Millisecond}, {TTL: 2 * time.Hour}, {Sole: true}, {Name: "\xff"},
		{Name: string(make([]byte, actorstore.MaxName+1))},
	} {
		if _, err := actorstore.Open(ctx, engines.Shared(memkv.New()), &actorstore.Options{Host: o}); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
