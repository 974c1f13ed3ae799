package actorstore_test

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestInUseByHost: a host that is alive has its actors, and says its name. They are to be
// had as soon as they are closed.
func TestInUseByHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{Name: "one"}), boot(t, below, actorstore.HostOptions{})
		a := one.take(t, nil)
		must(t, a.Put(ctx, user("k"), []byte("v")))
		time.Sleep(10 * leaseTTL)
		synctest.Wait()
		_, err := two.Actor(ctx, testID, nil)
		var in *actorstore.InUseError
		if !errors.Is(err, actorstore.ErrInUse) || !errors.As(err, &in) || !reflect.DeepEqual(in.Host, one.hostInfo()) {
			t.Errorf("got %v", err)
		}
		if got, err := two.Owner(ctx, testID); !reflect.DeepEqual(got, one.hostInfo()) || err != nil {
			t.Errorf("its owner is %+v, %v", got, err)
		}
		must(t, a.Put(ctx, user("k"), []byte("w")))
		must(t, a.Owned(ctx))
		if got, _ := get(t, two.take(t, closeFirst(t, a)), user("k")); got != "w" {
			t.Errorf("got %q", got)
		}
		if got, err := one.Owner(ctx, testID); got.ID != two.hostID() || err != nil {
			t.Errorf("its owner is %+v, %v", got, err)
		}
		for info, err := range one.Actors(ctx, nil) {
			if must(t, err); info.Host != two.hostID() {
				t.Errorf("got %+v", info)
			}
		}
	})
}

func closeFirst(t testing.TB, a *actorstore.Actor) *actorstore.ActorOptions {
	must(t, a.Close())
	return nil
}

// TestWaitForClose: a call that waits has the actor soon after it was closed, and doesn't ask
// without pause.
func TestWaitForClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		a := one.take(t, nil)
		opened := make(chan *actorstore.Actor)
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
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		one.take(t, nil)
		hurry, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		begin := time.Now()
		_, err := two.Actor(hurry, testID, waitFor)
		if !errors.Is(err, actorstore.ErrInUse) || !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		done := make(chan error)
		go func() { done <- second(two.Actor(ctx, testID, waitFor)) }()
		time.Sleep(time.Second)
		must(t, two.Close())
		if err := <-done; !errors.Is(err, actorstore.ErrClosed) {
			t.Errorf("got %v, want %v", err, actorstore.ErrClosed)
		}
	})
}

// TestForce: the host that has the actor gives that one up, and keeps the others. It
// has fenced its handle before the new one can write.
func TestForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		a := one.take(t, nil)
		must(t, a.Put(ctx, user("k"), []byte("v")))
		b, err := one.Actor(ctx, actorstore.IDFromName("other"), nil)
		must(t, err)
		snap, err := a.Snapshot(ctx)
		must(t, err)
		host, begin := one.hostID(), time.Now()
		two.take(t, force)
		if took := time.Since(begin); took > leaseTTL/2 {
			t.Errorf("it took %v", took)
		}
		if err := a.Err(); !errors.Is(err, actorstore.ErrFenced) || !strings.Contains(err.Error(), "another host took it over") {
			t.Errorf("the handle: %v", err)
		}
		checkRefused(t, a, actorstore.ErrFenced)
		if _, err := snap.Page(ctx, user("k"), nil); !errors.Is(err, actorstore.ErrFenced) {
			t.Errorf("the snapshot: %v", err)
		}
		must(t, snap.Close())
		must(t, b.Put(ctx, user("k"), nil))
		must(t, b.Owned(ctx))
		must(t, b.Close())
		time.Sleep(5 * leaseTTL)
		if got := one.hostID(); got != host {
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
			synctest.Test(t, func(t *testing.T) {
				below := memkv.New()
				one, two := newMachine(below), boot(t, below, actorstore.HostOptions{MaxClockSkew: tt.skew})
				one.set.Store(int64(tt.set))
				one.open(t, actorstore.HostOptions{})
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
				took, want := time.Since(begin), leaseTTL+leaseMargin
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
				if _, err := a.Get(ctx, user("k"), nil); !errors.Is(err, actorstore.ErrFenced) {
					t.Errorf("the dead one reads: %v", err)
				}
				checkRefused(t, a, actorstore.ErrFenced)
			})
		})
	}
}

// TestDeadHostSeenBefore: a host that asked and didn't wait has the actor when it asks again
// after a TTL.
func TestDeadHostSeenBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		one.take(t, nil)
		one.die()
		for _, pass := range []time.Duration{0, leaseTTL, leaseMargin} {
			time.Sleep(pass)
			if _, err := two.Actor(ctx, testID, nil); !errors.Is(err, actorstore.ErrInUse) {
				t.Errorf("after %v more: got %v, want %v", pass, err, actorstore.ErrInUse)
			}
		}
		time.Sleep(time.Millisecond)
		two.take(t, nil)
	})
}

// TestHungHost: its renewals hang while it is replaced. When they come through it has
// lost every actor, and the next one is its own by another lease.
func TestHungHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		a := one.take(t, nil)
		must(t, a.Put(ctx, user("k"), []byte("v")))
		other, err := one.Actor(ctx, actorstore.NewID(), nil)
		must(t, err)
		host := one.hostID()
		p := one.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Match: one.renewals(), Times: faultkv.Forever})
		<-p.Reached()
		b := two.take(t, force)
		must(t, b.Put(ctx, user("k"), []byte("w")))
		if _, err := a.Page(ctx, user("k"), nil); !errors.Is(err, actorstore.ErrFenced) {
			t.Errorf("got %v, want %v", err, actorstore.ErrFenced)
		}
		must(t, other.Owned(ctx)) // no host took it, and the head says so
		p.Release()
		time.Sleep(leaseTTL / 3)
		synctest.Wait()
		for _, a := range []*actorstore.Actor{a, other} {
			if !errors.Is(a.Err(), actorstore.ErrFenced) {
				t.Errorf("actor %s: %v", a.ID(), a.Err())
			}
			must(t, a.Close())
		}
		must(t, b.Close())
		a = one.take(t, nil)
		must(t, a.Owned(ctx))
		if got := one.hostID(); got == host || got.IsZero() {
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
	for _, read := range []func(a *actorstore.Actor) error{
		func(a *actorstore.Actor) error { return second(a.Page(ctx, user("k"), nil)) },
		func(a *actorstore.Actor) error { return second(a.Get(ctx, user("k"), nil)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			below := memkv.New()
			one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
			a := one.take(t, nil)
			must(t, a.Put(ctx, user("k"), []byte("v")))
			prefix := layout.NewPrefix(layout.ID(testID))
			reached, resume := make(chan struct{}), make(chan struct{})
			held := false
			one.eng.Hook(func(op faultkv.Op) error {
				if at := append(op.Key, op.Range.Start...); !held && bytes.HasPrefix(at, prefix[:]) {
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
			if err := <-done; !errors.Is(err, actorstore.ErrFenced) {
				t.Errorf("got %v, want %v", err, actorstore.ErrFenced)
			}
		})
	}
}

// TestEngineOutage: that no host could renew while the engine was out of reach isn't
// a sign that a host died.
func TestEngineOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		a := one.take(t, nil)
		two.take2(t)
		out := one.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever})
		two.eng.Fail(faultkv.Rule{Point: faultkv.BeforeGet})
		if err := second(two.Actor(ctx, testID, nil)); !errors.Is(err, faultkv.ErrInjected) {
			t.Errorf("got %v, want %v", err, faultkv.ErrInjected)
		}
		time.Sleep(2 * leaseTTL)
		if err := second(two.Actor(ctx, testID, nil)); !errors.Is(err, actorstore.ErrInUse) {
			t.Errorf("right after the outage: got %v, want %v", err, actorstore.ErrInUse)
		}
		out.Remove()
		time.Sleep(leaseTTL / 3)
		must(t, a.Owned(ctx))
	})
}

// take2 tries to open the actor, and sees which host has it.
func (m *machine) take2(t testing.TB) {
	t.Helper()
	if err := second(m.Actor(ctx, testID, nil)); !errors.Is(err, actorstore.ErrInUse) {
		t.Errorf("got %v, want %v", err, actorstore.ErrInUse)
	}
}

// TestRestarted: a process that was killed doesn't keep the one after it waiting, if
// the name proves that it is the same host.
func TestRestarted(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after actorstore.HostOptions
		ended, atOnce bool
	}{
		"killed":                  {actorstore.HostOptions{Name: "a"}, actorstore.HostOptions{Name: "a"}, true, true},
		"it runs":                 {actorstore.HostOptions{Name: "a"}, actorstore.HostOptions{Name: "a"}, false, false},
		"another name":            {actorstore.HostOptions{Name: "a"}, actorstore.HostOptions{Name: "b"}, true, false},
		"no name":                 {actorstore.HostOptions{}, actorstore.HostOptions{}, true, false},
		"promised":                {actorstore.HostOptions{Name: "a"}, actorstore.HostOptions{Name: "a", Sole: true}, false, true},
		"promised of another one": {actorstore.HostOptions{Name: "b"}, actorstore.HostOptions{Name: "a", Sole: true}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				below := memkv.New()
				one, two := boot(t, below, tt.before), boot(t, below, tt.after)
				a := one.take(t, nil)
				must(t, a.Put(ctx, user("k"), nil))
				one.die()
				if tt.ended {
					one.renumber(t, below)
				}
				begin := time.Now()
				two.take(t, waitFor)
				if took := time.Since(begin); (took == 0) != tt.atOnce {
					t.Errorf("it took %v", took)
				}
				time.Sleep(leaseTTL) // which it doesn't answer for if it has ended
				checkRefused(t, a, actorstore.ErrFenced)
			})
		})
	}
}

// renumber makes the row of m's host say that its process had the number of this one before, and
// has ended.
func (m *machine) renumber(t testing.TB, below kv.Engine) {
	t.Helper()
	key := layout.HostKey(m.hostID())
	stored, err := below.Get(ctx, key, nil)
	must(t, err)
	row, err := layout.ParseHost(m.hostID(), stored)
	must(t, err)
	row.Started--
	must(t, below.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(key, row.Append(nil))}}))
}

// TestOldStore: an actor whose owner knew nothing of leases is free, and that owner
// finds out by its head.
func TestOldStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		a := one.take(t, nil)
		must(t, a.Put(ctx, user("k"), nil))
		one.die()
		time.Sleep(leaseTTL) // it always looks
		must(t, below.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Clear(layout.HostKey(one.hostID())), kv.Clear(layout.RecordKey(layout.ID(testID), layout.PartOwner))}}))
		two.take(t, nil)
		checkRefused(t, a, actorstore.ErrFenced)
	})
}
