package host

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
)

// TestWakeHookFails: an actor that is due and whose Wake hook fails is tried again after pauses that grow.
func TestWakeHookFails(t *testing.T) {
	var d diary
	kind := rightType(&d)
	var broken atomic.Bool
	var tries atomic.Int64
	kind.Wake = func(*Context) error {
		if broken.Load() {
			if tries.Add(1) > 1000 {
				<-time.After(time.Hour) // of a bubble, in which no time passes else
			}
			return errors.New("broken")
		}
		return nil
	}
	bubble(t, Options{IdleTimeout: time.Second}, func(r *rig) {
		_, err := r.Send(r.ctx, lobby, queue.Send{Name: "word", Delay: time.Hour})
		must(t, err)
		pass(time.Minute)
		broken.Store(true)
		pass(time.Hour)
		if tries := tries.Load(); tries == 0 || tries > 30 {
			t.Errorf("it was tried %d times in an hour", tries)
		}
		broken.Store(false)
		pass(time.Hour)
	}, kind)
}

// TestAwakeElsewhere: an actor that one host has awake, and that was due when it woke, isn't tried by the others every
// Rescan, and no idle actor of theirs has to go for that.
func TestAwakeElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		var both [2]*faultkv.Engine
		var hosts [2]*Host
		var d [2]diary
		for i := range hosts {
			both[i] = faultkv.New(below)
			opts := Options{Logger: quiet, IdleTimeout: 10 * time.Hour, MaxAwake: 10, Store: &greenroom.Options{Host: actorstore.HostOptions{Name: fmt.Sprint("h", i)}}}
			h, err := Open(t.Context(), engines.Shared(both[i]), []*Type{rightType(&d[i])}, &opts)
			must(t, err)
			hosts[i] = h
		}
		// A store past the hosts gives five actors something to do: one of the hosts wakes each.
		store, err := greenroom.New(t.Context(), engines.Shared(below), nil)
		must(t, err)
		for i := range 5 {
			a, err := store.Actor(t.Context(), fmt.Sprint("thing/", i), nil)
			must(t, err)
			must(t, a.Update(t.Context(), func(tx *greenroom.Tx) error {
				_, err := tx.Enqueue(queue.Send{Name: "word"})
				return err
			}))
			must(t, a.Close())
		}
		pass(time.Minute)
		if a, b := hosts[0].Stats().Awake, hosts[1].Stats().Awake; a+b != 5 {
			t.Fatalf("%d and %d are awake", a, b)
		}
		// both hosts are full of idle actors of their own
		for i, h := range hosts {
			for n := h.Stats().Awake; n < 10; n++ {
				_, err := h.Send(t.Context(), Address{"thing", fmt.Sprint("own", i, n)}, queue.Send{Name: "word"})
				must(t, err)
			}
		}
		pass(time.Minute)
		if a, b := hosts[0].Stats().Awake, hosts[1].Stats().Awake; a != 10 || b != 10 {
			t.Errorf("%d and %d are awake, want ten each: idle ones had to go for actors that the other host has awake", a, b)
		}
		before := [2]faultkv.Counts{both[0].Counts(), both[1].Counts()}
		pass(10 * time.Minute)
		for i := range hosts {
			c := both[i].Counts()
			if n := c.Scans - before[i].Scans; n > 300 {
				t.Errorf("host %d: %d scans in ten minutes without anything to do", i, n)
			}
		}
		must(t, store.Close())
		for _, h := range hosts {
			must(t, h.Close(t.Context()))
		}
	})
}

// TestOutsideKeepsHandle: code past the host, with a store of its own in the host's process, gives an actor that sleeps something to do and
// goes on with its handle. The host wakes the actor when that is closed, and doesn't take it away.
func TestOutsideKeepsHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		r, store := withOutside(t, &d, false, false)
		a, err := store.Actor(t.Context(), lobby.String(), nil)
		must(t, err)
		enqueue := func(tx *greenroom.Tx) error {
			_, err := tx.Enqueue(queue.Send{Name: "word"})
			return err
		}
		must(t, a.Update(t.Context(), enqueue))
		pass(7 * time.Second)
		if err := a.Update(t.Context(), enqueue); err != nil {
			t.Errorf("after seven seconds its second update: %v", err)
		}
		_ = a.Close()
		must(t, store.Close())
		r.close()
	})
}

// TestDeploymentThenOutside: work that one version can't do is done by another one at once, also if code past the host has
// stored something for much later meanwhile.
func TestDeploymentThenOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := memkv.New()
		beginWork(t, engine, sendWord)
		bad := rightType(&diary{})
		bad.Message, bad.MessageNames = nil, nil
		deployed(t, engine, bad, func(h *Host) { pass(2 * time.Hour) })
		store, err := greenroom.New(t.Context(), engine, nil)
		must(t, err)
		a, err := store.Actor(t.Context(), lobby.String(), nil)
		must(t, err)
		must(t, a.Update(t.Context(), func(tx *greenroom.Tx) error {
			_, err := tx.After(300*24*time.Hour, "ring")
			return err
		}))
		must(t, a.Close())
		must(t, store.Close())
		var d diary
		deployed(t, engine, rightType(&d), func(h *Host) {
			pass(24 * time.Hour)
			d.want(t, "done")
		})
	})
}

// TestOutsideRandom has processes past two hosts send messages to actors that go to sleep and wake all the time.
func TestOutsideRandom(t *testing.T) {
	for seed := range testkit.Pick(2, 4, 40) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, uint64(seed)))
			engine := engines.Shared(memkv.New())
			var got sync.Map
			kind := func() *Type {
				return &Type{Name: "thing", MessageNames: []string{"word"}, Message: func(_ *Context, m *greenroom.Message) error {
					var n int
					if err := m.Decode(&n); err != nil {
						return err
					}
					got.Store(n, time.Now())
					return nil
				}}
			}
			var hosts [2]*Host
			for i := range hosts {
				h, err := Open(t.Context(), engine, []*Type{kind()}, &Options{Logger: quiet, IdleTimeout: time.Duration(rnd.IntN(3000)) * time.Millisecond})
				must(t, err)
				hosts[i] = h
			}
			var stores [3]*greenroom.Store
			for i := range stores {
				s, err := greenroom.New(t.Context(), engine, nil)
				must(t, err)
				stores[i] = s
			}
			var sent [300]time.Time
			var all sync.WaitGroup
			for n := range sent {
				pass(time.Duration(rnd.IntN(1500)) * time.Millisecond)
				s, name := stores[rnd.IntN(3)], fmt.Sprint("thing/", rnd.IntN(4))
				all.Go(func() {
					a, err := s.Actor(t.Context(), name, &greenroom.ActorOptions{Wait: true})
					if err != nil {
						t.Error(err)
						return
					}
					must(t, a.Update(t.Context(), func(tx *greenroom.Tx) error {
						_, err := tx.Enqueue(queue.Send{Name: "word", Body: n})
						return err
					}))
					must(t, a.Close())
					sent[n] = time.Now()
				})
			}
			all.Wait()
			pass(20 * time.Second)
			for n, at := range sent {
				when, ok := got.Load(n)
				if !ok {
					t.Errorf("seed %d: message %d isn't received", seed, n)
				} else if took := when.(time.Time).Sub(at); took > 7*time.Second {
					t.Errorf("seed %d: message %d has taken %v", seed, n, took)
				}
			}
			for _, s := range stores {
				must(t, s.Close())
			}
			for _, h := range hosts {
				must(t, h.Close(t.Context()))
			}
		})
	}
}

// TestOldRowsLater: a host of before that still runs on the same engine, as when hosts are replaced one after the other, leaves rows when a
// host of now has taken over those that were there. They are taken over, too, without a restart.
func TestOldRowsLater(t *testing.T) {
	var d diary
	bubble(t, Options{}, func(r *rig) {
		r.plan("plan", time.Hour)
		pass(time.Minute)
		r.forgetWakes() // it was the other host's plan
		r.putOldRow(lobby.String())
		pass(3 * time.Hour)
		d.want(t, "bell")
		r.wantOldRows()
	}, clockThing(&d))
}

// TestHolderDies: what an actor of a host that dies has to do is done by another one within the lease and Rescan.
func TestHolderDies(t *testing.T) {
	for _, again := range []bool{false, true} { // the row names the host, or was there before the actor woke
		synctest.Test(t, func(t *testing.T) {
			below := memkv.New()
			var d [2]diary
			var hosts [2]*Host
			var both [2]*faultkv.Engine
			for i := range hosts {
				both[i] = faultkv.New(below)
				h, err := Open(t.Context(), engines.Shared(both[i]), []*Type{clockThing(&d[i])}, &Options{Logger: quiet, IdleTimeout: 10 * time.Minute})
				must(t, err)
				hosts[i] = h
			}
			plan := func(after time.Duration) {
				_, err := invoke[string](t.Context(), hosts[0], lobby, "plan", after)
				must(t, err)
			}
			if again {
				plan(time.Hour)
				pass(50 * time.Minute) // it sleeps, and is woken
			}
			plan(10 * time.Minute)
			pass(9*time.Minute + 59*time.Second)
			for _, p := range []faultkv.Point{faultkv.BeforeCommit, faultkv.BeforeScan, faultkv.BeforeGet} {
				both[0].Fail(faultkv.Rule{Point: p, Times: faultkv.Forever})
			}
			died := time.Now()
			for len(d[1].read()) == 0 && time.Since(died) < time.Hour {
				pass(100 * time.Millisecond)
			}
			if time.Since(died) > 20*time.Second { // the lease is 10 s, Rescan 5 s
				t.Errorf("done after %v", time.Since(died))
			}
			both[0].Heal()
			for _, h := range hosts {
				_ = h.Close(t.Context())
			}
		})
	}
}
