package actorstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A hooked is an engine that calls a function before one commit.
type hooked struct {
	kv.Engine
	before atomic.Pointer[func(c *kv.Commit)]
}

func (e *hooked) Commit(ctx context.Context, c *kv.Commit) error {
	if fn := e.before.Load(); fn != nil {
		(*fn)(c)
	}
	return e.Engine.Commit(ctx, c)
}

// wakesOf returns how many actors another host is told of.
func wakesOf(t *testing.T, s *actorstore.Store) (n int) {
	t.Helper()
	for _, err := range s.Wakes(ctx, time.Now().Add(1000*time.Hour), false) {
		must(t, err)
		n++
	}
	return n
}

// TestWakeLost: the server of the engine crashes while an actor is open, and takes back when it was to be woken. Closed, the actor leaves the index as the
// actor has it.
func TestWakeLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := faultkv.NewServer(func() kv.Engine { return memkv.New() })
		s, err := actorstore.Open(ctx, server, &actorstore.Options{Host: actorstore.HostOptions{TTL: leaseTTL}})
		must(t, err)
		a, err := s.Named(ctx, "thing/a", nil)
		must(t, err)
		wakeBy := func(commit func(context.Context, *batch.Batch) error, in time.Duration) {
			var b batch.Batch
			b.Put(user("k"), []byte("v"))
			b.WakeBy(time.Now().Add(in))
			must(t, commit(ctx, &b))
		}
		wakeBy(a.Commit, 20*time.Hour)
		wakeBy(a.Apply, 10*time.Hour)
		server.Crash(0)
		must(t, a.Close())
		<-time.After(leaseTTL)
		for f, err := range s.Check(ctx) {
			t.Errorf("%v, %v", f, err)
		}
		if n := wakesOf(t, s); n != 1 {
			t.Errorf("%d actors are to be woken, want 1", n)
		}
		must(t, s.Close())
	})
}

// TestWakeReopened: a process past the hosts opens an actor again just as it closes it, and closes it then. It is any host's to wake.
func TestWakeReopened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		hook := &hooked{Engine: engines.Shared(below)}
		s, err := actorstore.Open(ctx, hook, &actorstore.Options{Host: actorstore.HostOptions{TTL: leaseTTL}})
		must(t, err)
		host := boot(t, below, actorstore.HostOptions{})
		_ = host.take(t, &actorstore.ActorOptions{}).Close()
		a, err := s.Named(ctx, "thing/a", nil)
		must(t, err)
		var b batch.Batch
		b.Put(user("k"), []byte("v"))
		b.WakeBy(time.Time{})
		must(t, a.Commit(ctx, &b))
		var again *actorstore.Actor
		fn := func(c *kv.Commit) {
			for _, o := range c.Ops {
				if o.Kind == kv.OpClear && string(o.Key) == string(layout.RecordKey(layout.ID(a.ID()), layout.PartOwner)) {
					hook.before.Store(nil)
					again, err = s.Named(ctx, "thing/a", nil)
					must(t, err)
				}
			}
		}
		hook.before.Store(&fn)
		must(t, a.Close())
		if again == nil {
			t.Fatal("no release")
		}
		must(t, again.Close())
		<-time.After(3 * leaseTTL)
		if n := wakesOf(t, host.Store); n != 1 {
			t.Errorf("another host is told of %d actors to be woken, want 1: the row names a host that has nothing open", n)
		}
		must(t, s.Close())
	})
}

// TestWakeForced: an actor is taken from a living process past the hosts, and closed. It is any host's to wake.
func TestWakeForced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		tool, other, host := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		a := tool.take(t, nil)
		var b batch.Batch
		b.Put(user("k"), []byte("v"))
		b.WakeBy(time.Time{})
		must(t, a.Commit(ctx, &b))
		must(t, other.take(t, &actorstore.ActorOptions{Force: true}).Close())
		_ = a.Close()
		_ = host.take(t, nil).Close() // it has a lease
		<-time.After(3 * leaseTTL)
		if n := wakesOf(t, host.Store); n != 1 {
			t.Errorf("another host is told of %d actors to be woken, want 1", n)
		}
	})
}

// TestWakePoisoned: a commit of a process past the hosts lands and fails. The actor is any host's to wake once it is closed.
func TestWakePoisoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		tool, host := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		a := tool.take(t, nil)
		must(t, a.Put(ctx, user("k"), nil))
		tool.eng.Fail(faultkv.Rule{Point: faultkv.AfterCommit})
		var b batch.Batch
		b.Put(user("k"), []byte("v"))
		b.WakeBy(time.Time{})
		if err := a.Commit(ctx, &b); !errors.Is(err, actorstore.ErrPoisoned) {
			t.Fatal(err)
		}
		must(t, a.Close())
		<-time.After(3 * leaseTTL)
		h := host.take(t, nil)
		if h.Wake().At.IsZero() {
			t.Fatal("it has not landed")
		}
		must(t, h.Close())
		if n := wakesOf(t, host.Store); n != 1 {
			t.Errorf("another host is told of %d actors to be woken, want 1", n)
		}
	})
}

// TestWakeNamedLater: an actor to be woken gets its name while the disk is full. The index has the name with the commit that records it.
func TestWakeNamedLater(t *testing.T) {
	eng := faultkv.New(memkv.New())
	s := openStore(t, eng, batch.Limits{})
	a, err := s.Actor(ctx, testID, nil)
	must(t, err)
	var b batch.Batch
	b.Put(user("k"), []byte("v"))
	b.WakeBy(at(1))
	must(t, errors.Join(a.Commit(ctx, &b), a.Close()))
	eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.NotApplied(errkind.ErrNoSpace), Times: faultkv.Forever})
	a, err = s.Actor(ctx, testID, &actorstore.ActorOptions{Name: "thing/a"})
	must(t, err)
	eng.Heal()
	must(t, a.Put(ctx, user("k"), []byte("w")))
	must(t, a.Close())
	compare(t, "check", findings(t, s.Check(ctx)), nil)
	if got := indexed(t, s, never); len(got) != 1 || got[0] != "thing/a: 1" {
		t.Errorf("the index says %q", got)
	}
}

// TestWakeBehindDamage: a row of the index that can't be read doesn't keep the others from being found.
func TestWakeBehindDamage(t *testing.T) {
	eng := memkv.New()
	s := openStore(t, eng, batch.Limits{})
	a, err := s.Named(ctx, "thing/a", nil)
	must(t, err)
	var b batch.Batch
	b.Put(user("k"), nil)
	b.WakeBy(at(5))
	must(t, errors.Join(a.Commit(ctx, &b), a.Close()))
	must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(layout.WakeKey(1, layout.ID(testID)), []byte{1, 0})}}))
	n := 0
	for w := range s.Wakes(ctx, never, false) {
		if w.Name == "thing/a" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("behind a damaged row %d rows are found, want 1", n)
	}
}
