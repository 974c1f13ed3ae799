package host

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/queue"
)

// forget has couriers keep next to nothing in memory: what is sent from now on they read
// from the outboxes.
func (r *rig) forget() {
	r.couriers.mu.Lock()
	defer r.couriers.mu.Unlock()
	r.couriers.limit = 0
}

// TestSendCrowded has everybody talk where few may be awake: the receiver, or one actor
// in all.
func TestSendCrowded(t *testing.T) {
	for i := range 4 {
		most := 1 + i/2
		y := &tally{n: map[*metrics.Metric]int64{}}
		bubble(t, Options{MaxAwake: most, IdleTimeout: time.Hour, Metrics: y}, func(r *rig) {
			if i%2 == 1 {
				r.forget()
			}
			for i := range 10 {
				r.call(Address{"thing", fmt.Sprint(i)}, "say", fmt.Sprint(i))
			}
			pass(10 * time.Minute)
			got := r.heard()
			slices.Sort(got)
			if want := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}; !slices.Equal(got, want) {
				t.Errorf("with %d awake: heard %q", most, got)
			}
			r.wantNoLetters()
			y.mu.Lock()
			defer y.mu.Unlock()
			// The senders twice, and between each two of them the receiver.
			if n := y.n[metricWoken]; n > 60 {
				t.Errorf("with %d awake: actors were woken %d times", most, n)
			}
		}, talkers()...)
	}
}

// TestSendFullQueue sends more than fits into the queue of the receiver, which takes it
// all the same in time, and in order.
func TestSendFullQueue(t *testing.T) {
	for _, stored := range []bool{false, true} {
		sendFullQueue(t, stored)
	}
}

func sendFullQueue(t *testing.T, stored bool) {
	kinds := talkers()
	kinds[1].Queue.MaxMessages = 5
	var open atomic.Bool
	hear := kinds[1].Message
	kinds[1].Message = func(c *Context, m *greenroom.Message) error {
		if !open.Load() {
			return errRefused
		}
		return hear(c, m)
	}
	bubble(t, Options{}, func(r *rig) {
		if stored {
			r.forget()
		}
		for range 40 {
			r.call(lobby, "number", nil)
		}
		pass(time.Minute)
		r.wantHeard()
		open.Store(true)
		pass(2 * time.Hour)
		wantNumbers(t, r.heard(), 40) // what had failed came again later
		r.wantNoLetters()
	}, kinds...)
}

// TestSendBehindRefused has a courier give up, and only then a newer message sent: it
// doesn't overtake, nor is what it would have overtaken lost.
func TestSendBehindRefused(t *testing.T) {
	for _, stored := range []bool{false, true} {
		sendBehindRefused(t, stored)
	}
}

func sendBehindRefused(t *testing.T, stored bool) {
	kinds := talkers()
	var awake atomic.Bool
	kinds[1].Wake = func(*Context) error {
		if !awake.Load() {
			return errRefused
		}
		return nil
	}
	bubble(t, Options{}, func(r *rig) {
		if stored {
			r.forget()
		}
		r.call(lobby, "number", nil)
		pass(20 * time.Second)
		if s := r.Stats(); s.Couriers != 0 || s.Senders != 0 {
			t.Errorf("%+v when it has given up", s)
		}
		awake.Store(true)
		r.call(lobby, "number", nil)
		pass(5 * time.Minute)
		r.wantHeard("1", "2")
		r.wantNoLetters()
	}, kinds...)
}

// TestSendLastWords destroys an actor while the couriers keep nothing of it in memory. The messages
// it sent arrive all the same, before those of the next actor of its name.
func TestSendLastWords(t *testing.T) {
	kinds := talkers()
	var awake atomic.Bool
	kinds[1].Wake = func(*Context) error {
		if !awake.Load() {
			return errRefused
		}
		return nil
	}
	bubble(t, Options{}, func(r *rig) {
		r.forget()
		r.call(lobby, "say", "one")
		r.call(lobby, "say", "two")
		synctest.Wait()
		r.call(lobby, "last word", "three")
		synctest.Wait()
		r.call(lobby, "say", "a new one")
		pass(2 * time.Second) // it is tried, in vain
		awake.Store(true)
		pass(10 * time.Minute)
		r.wantHeard("one", "two", "three", "a new one")
		r.wantNoLetters()
	}, kinds...)
}

// TestCouriersPassTheSlow: a slow receiver takes nothing while many actors send to it, and a slow
// sender doesn't hear what has arrived at its many receivers. The others talk all the same.
func TestCouriersPassTheSlow(t *testing.T) {
	kinds := talkers()
	kinds[0].Actions = append(kinds[0].Actions, NewAction("to all", func(c *Context, n int) (int, error) {
		for i := range n {
			if err := c.Send(Address{"thing", fmt.Sprint(i)}, queue.Send{Name: "word"}); err != nil {
				return 0, err
			}
		}
		return n, nil
	}))
	kinds[0].Actions = append(kinds[0].Actions, NewAction("to slow", func(c *Context, _ struct{}) (int, error) {
		return 0, c.Send(Address{"ear", "slow"}, queue.Send{Name: "word"})
	}))
	bubble(t, Options{MaxAwake: 100, Couriers: 8, Mailbox: 1, IdleTimeout: time.Hour}, func(r *rig) {
		const all = 40
		for i := range all {
			r.call(Address{"thing", fmt.Sprint(i)}, "numbered", nil)
		}
		r.heard()
		send, release := make(chan bool), make(chan bool)
		var busy []chan error
		begin := func(a Address, fn func(c *Context) error) {
			done := make(chan error, 1)
			busy = append(busy, done)
			go func() { done <- r.turn(r.ctx, a, &birth{}, newTurn("test", fn)) }()
			synctest.Wait()
		}
		hang := func(*Context) error { <-release; return nil }
		begin(Address{"thing", "slow"}, func(c *Context) error {
			<-send
			_, err := c.life.kind.handler("to all")(c, Raw{24, all})
			return err
		})
		begin(Address{"thing", "slow"}, hang)
		begin(Address{"ear", "slow"}, hang)
		close(send)
		for i := range all {
			r.call(Address{"thing", fmt.Sprint(i)}, "to slow", nil)
		}
		synctest.Wait()
		r.call(lobby, "number", nil)
		synctest.Wait()
		r.wantHeard("1")
		close(release)
		for _, done := range busy {
			must(t, <-done)
		}
		pass(time.Minute)
		r.wantNoLetters()
	}, kinds...)
}

// TestSendFaults fails each engine operation from a turn that sends until its message has
// come: what was acknowledged comes once, and what failed never.
func TestSendFaults(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply, faultkv.AfterCommit, faultkv.BeforeSync, faultkv.BeforeGet, faultkv.BeforeScan} {
		for skip, hit := 0, true; hit; skip++ {
			bubble(t, Options{}, func(r *rig) {
				if skip%2 == 1 {
					r.forget()
				}
				r.call(lobby, "number", nil)
				pass(time.Second)
				fault := r.engine.Fail(faultkv.Rule{Point: point, Skip: skip})
				_, err := invoke[int](r.ctx, r.Host, lobby, "number", nil)
				pass(5 * time.Minute)
				fault.Remove()
				hit = fault.Hits() > 0
				if err == nil && r.call(lobby, "numbered", nil) != 2 {
					t.Errorf("fault %d at %v: the turn isn't there", skip, point)
				}
				r.call(lobby, "number", nil)
				pass(time.Minute)
				r.wantHeard(numbers(r.call(lobby, "numbered", nil))...)
				r.wantNoLetters()
				if t.Failed() {
					t.Fatalf("fault %d at %v, error %v", skip, point, err)
				}
			}, talkers()...)
		}
	}
}

// TestSendAfterCrash crashes the host at each commit and wait of a turn that sends and of
// the way of its message, and restarts it: the message comes once if its turn has landed.
func TestSendAfterCrash(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterCommit, faultkv.BeforeSync} {
		for skip, hit := 0, true; hit; skip++ {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{IdleTimeout: 10 * time.Hour}, talkers()...)
				pause := r.engine.Pause(faultkv.Rule{Point: point, Skip: skip, Err: faultkv.ErrInjected})
				done := make(chan error, 1)
				go func() {
					_, err := invoke[int](r.ctx, r.Host, lobby, "number", nil)
					done <- err
				}()
				synctest.Wait()
				pass(time.Second)
				old := r.crash()
				pause.Release()
				hit = pause.Hits() > 0
				pass(5 * time.Minute)
				err := <-done
				n := r.call(lobby, "numbered", nil)
				if err == nil && n != 1 {
					t.Errorf("what was acknowledged isn't there")
				}
				r.wantHeard(numbers(n)...)
				r.call(lobby, "number", nil)
				pass(time.Minute)
				r.wantHeard(numbers(n + 1)...)
				r.wantNoLetters()
				if t.Failed() {
					t.Errorf("crash %d at %v, error %v", skip, point, err)
				}
				_ = old.Close(t.Context()) // its actors are fenced
				r.close()
			})
		}
	}
}

// TestSendBetweenHosts: the receiver is awake on another host, which delivers the message when it
// next has the sender.
func TestSendBetweenHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := engines.Shared(memkv.New())
		var hosts [2]*Host
		for i := range hosts {
			opts := Options{Logger: quiet, IdleTimeout: time.Minute, Store: &greenroom.Options{Host: actorstore.HostOptions{Name: fmt.Sprint(i)}}}
			h, err := Open(t.Context(), engine, talkers(), &opts)
			must(t, err)
			hosts[i] = h
		}
		_, err := invoke[[]string](t.Context(), hosts[0], ear, "heard", nil)
		must(t, err)
		_, err = invoke[int](t.Context(), hosts[1], lobby, "number", nil)
		must(t, err)
		must(t, hosts[1].Close(t.Context()))
		pass(10 * time.Minute)
		heard, err := invoke[[]string](t.Context(), hosts[0], ear, "heard", nil)
		must(t, err)
		if !slices.Equal(heard, []string{"1"}) {
			t.Errorf("heard %q", heard)
		}
		must(t, hosts[0].Close(context.Background()))
	})
}

// TestBatch: what may create the receiver doesn't go together with what may not, and no
// more goes at once than lettersAtOnce.
func TestBatch(t *testing.T) {
	var cs couriers
	trip := &trip{}
	add := func(n int, existing bool) {
		for range n {
			trip.letters = append(trip.letters, &mailrow.Letter{Existing: existing})
		}
	}
	add(2, true)
	add(lettersAtOnce+1, false)
	add(1, true)
	for _, want := range []int{2, lettersAtOnce, 1, 1, 0} {
		if got := len(cs.batch(trip)); got != want {
			t.Fatalf("%d go, want %d", got, want)
		}
		trip.letters = trip.letters[want:]
	}
}

// TestLeaveToOtherLine has trips wait for one receiver that is asleep, and awake when the
// last courier of their line has returned: none of them is left behind.
func TestLeaveToOtherLine(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.heard() // which wakes it
		cs := r.Host.newCouriers()
		cs.most = 0 // no courier sets out
		m := &mail{trips: map[string]*trip{}}
		at := way{far, ear.String()}
		v := &visit{couriers: 2}
		m.couriers[far] = 2
		for range 3 {
			v.waiting = append(v.waiting, &trip{mail: m, to: ear.String()})
		}
		cs.visits[at] = v
		for n, want := range []int{1, 3} {
			cs.mu.Lock()
			cs.leave(&trip{mail: m, to: ear.String()}, far)
			if got := len(m.ready[near]); got != want {
				t.Errorf("%d may go when %d couriers have returned, want %d", got, n+1, want)
			}
			cs.mu.Unlock()
		}
		if len(cs.visits) != 0 {
			t.Errorf("%d visits", len(cs.visits))
		}
	}, talkers()...)
}

// TestComeAndNotTold has a letter come, and its sender not be told: it is in the outbox, and
// when it is read there it is carried again.
func TestComeAndNotTold(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		cs := r.Host.newCouriers()
		cs.most = 0 // no courier sets out
		m := &mail{name: lobby.String(), from: lobby, trips: map[string]*trip{}, stored: true}
		l := &mailrow.Letter{To: ear.String(), Number: 1}
		cs.mu.Lock()
		cs.add(m, l)
		on := m.trips[l.To]
		on.came, m.couriers[far] = 1, 1
		cs.visits[way{far, l.To}] = &visit{couriers: 1}
		cs.mu.Unlock()
		cs.returned(on, far, errRefused)
		pass(backoff(1))
		cs.mu.Lock()
		defer cs.mu.Unlock()
		if on.state != fresh || !m.unread() || !cs.add(m, l) || len(m.trips[l.To].letters) != 1 {
			t.Errorf("the trip is %d with %d letters, to be read: %v", on.state, len(on.letters), m.unread())
		}
	}, talkers()...)
}
