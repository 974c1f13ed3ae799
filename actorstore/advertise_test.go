package actorstore_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestAdvertise: an address stands in the row of a store's host from the first actor on, through renewals, requests of other hosts and new leases, until
// another one, or none, is told.
func TestAdvertise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		want := func(when, address string) {
			t.Helper()
			if got := one.hostInfo().Address; got != address {
				t.Errorf("%s: got %q, want %q", when, got, address)
			}
		}
		one.eng.Reset()
		must(t, one.Advertise(ctx, "one.lan:1"))
		if n := one.eng.Counts().Commits; n != 0 || !one.hostID().IsZero() {
			t.Errorf("nothing is owned, and there are %d commits", n)
		}
		a := one.take(t, nil)
		want("with the first actor", "one.lan:1")
		_, err := two.Actor(ctx, testID, nil)
		if in := (*actorstore.InUseError)(nil); !errors.As(err, &in) || in.Host.Address != "one.lan:1" || in.Host.ID != one.hostID() {
			t.Errorf("another host: got %v", err)
		}
		time.Sleep(10*leaseTTL + leaseTTL/10) // not when the next renewal is due
		want("after renewals", "one.lan:1")

		one.eng.Reset()
		must(t, one.Advertise(ctx, "https://one.lan:2"))
		want("at once", "https://one.lan:2")
		must(t, one.Advertise(ctx, "https://one.lan:2"))
		if n := one.eng.Counts().Commits; n != 1 {
			t.Errorf("it took %d commits", n)
		}
		two.take(t, &actorstore.ActorOptions{Force: true})
		want("after a request of another host", "https://one.lan:2")
		if err := a.Owned(ctx); !errors.Is(err, actorstore.ErrFenced) {
			t.Errorf("the actor was taken over: %v", err)
		}

		must(t, one.Advertise(ctx, ""))
		want("none any more", "")
	})
}

// TestAdvertiseLater: an address that can't be written at once is written by a later renewal, and one that was told before the lease was lost stands in
// the row of the next one.
func TestAdvertiseLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := boot(t, memkv.New(), actorstore.HostOptions{})
		a := m.take(t, nil)
		f := m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 2, Match: m.renewals()})
		must(t, m.Advertise(ctx, "one.lan:1"))
		if got := m.hostInfo().Address; got != "" || f.Hits() != 2 {
			t.Errorf("after %d failures: %q", f.Hits(), got)
		}
		time.Sleep(leaseTTL / 3)
		synctest.Wait()
		if got := m.hostInfo().Address; got != "one.lan:1" {
			t.Errorf("after the next renewal: %q", got)
		}

		m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever, Match: m.renewals()})
		ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if err := m.Advertise(ctx, "one.lan:2"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that ends: got %v", err)
		}
		time.Sleep(2 * leaseTTL)
		old := m.hostID()
		heir := boot(t, m.rows.Engine, actorstore.HostOptions{})
		heir.take(t, &actorstore.ActorOptions{Wait: true})
		m.eng.Heal()
		time.Sleep(leaseTTL)
		if err := a.Err(); !errors.Is(err, actorstore.ErrFenced) {
			t.Errorf("the lease was ended: %v", err)
		}
		b, err := m.Actor(t.Context(), actorstore.NewID(), nil)
		must(t, err)
		if got := m.hostInfo().Address; got != "one.lan:2" || m.hostID() == old {
			t.Errorf("the next lease: %q, a new host: %v", got, m.hostID() != old)
		}
		must(t, b.Close())
	})
}

// TestAdvertiseNot: what can't be told is refused, and where nothing has to be told nothing is written.
func TestAdvertiseNot(t *testing.T) {
	alone := faultkv.New(memkv.New())
	s, err := actorstore.Open(ctx, alone, nil)
	must(t, err)
	alone.Reset()
	must(t, s.Advertise(ctx, "one.lan:1"))
	if got := alone.Counts(); got != (faultkv.Counts{}) {
		t.Errorf("where all users are in one process: %+v", got)
	}
	if err := s.Advertise(ctx, "one.lan"); err == nil {
		t.Error("an address without a port was told")
	}
	must(t, s.Close())
	if err := s.Advertise(ctx, "one.lan:1"); !errors.Is(err, actorstore.ErrClosed) {
		t.Errorf("a closed store: %v", err)
	}
	reader, err := actorstore.Open(ctx, alone, &actorstore.Options{ReadOnly: true})
	must(t, err)
	if err := reader.Advertise(ctx, "one.lan:1"); !errors.Is(err, actorstore.ErrReadOnly) {
		t.Errorf("a store for reading: %v", err)
	}
	must(t, reader.Close())
}

// TestOffer: a store that offers something is a host before it has an actor, and says the offer in its row, beside its address, until that changes, and after its
// lease was lost.
func TestOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		m, other := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		if !m.Self().IsZero() {
			t.Errorf("it is the host %s", m.Self())
		}
		listed := func(when string, want *actorstore.Offer, address string) {
			t.Helper()
			for h, err := range other.Hosts(ctx) {
				must(t, err)
				if h.ID == m.Self() {
					if !reflect.DeepEqual(&h.Offer, want) || h.Address != address {
						t.Errorf("%s: got %+v", when, h)
					}
					return
				}
			}
			t.Errorf("%s: it is not listed", when)
		}
		o := &actorstore.Offer{Address: "one.lan:1", Types: []actorstore.OfferedType{{Name: "cart", Schema: 3}, {Name: "room"}}}
		m.eng.Reset()
		must(t, m.Offer(ctx, o))
		listed("at once", o, "")
		must(t, m.Advertise(ctx, "one.lan:2"))
		must(t, m.Offer(ctx, o))
		listed("with an address", o, "one.lan:2")
		if n := m.eng.Counts().Commits; n != 2 {
			t.Errorf("it took %d commits", n)
		}
		if c, r := o.Runs("cart"), o.Runs("cargo"); c == nil || c.Schema != 3 || r != nil {
			t.Errorf("it runs %v and %v", c, r)
		}
		o = &actorstore.Offer{Leaving: true}
		must(t, m.Offer(ctx, o))
		listed("leaving", o, "one.lan:2")

		f := m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever, Match: m.renewals()})
		a := m.take(t, nil)
		time.Sleep(2 * leaseTTL)
		other.take(t, &actorstore.ActorOptions{Wait: true})
		m.eng.Heal()
		time.Sleep(leaseTTL)
		old := m.Self()
		must(t, m.Offer(ctx, o))
		if listed("with the next lease", o, "one.lan:2"); m.Self() == old || f.Hits() == 0 {
			t.Errorf("the lease wasn't lost")
		}
		if err := a.Err(); !errors.Is(err, actorstore.ErrFenced) {
			t.Errorf("the actor of the lost lease: %v", err)
		}
		if err := m.Offer(ctx, &actorstore.Offer{Types: make([]actorstore.OfferedType, 1)}); err == nil {
			t.Error("a type without a name was offered")
		}
	})
}
