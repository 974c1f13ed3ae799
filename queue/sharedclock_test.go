package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/persist"
)

// A sleeper is an actor with a queue and a schedule on one clock, which is in memory only
// when it must be.
type sleeper struct {
	*rig
	host  host
	clock *alarm.Clock
	rec   *persist.Record
	start time.Time
	seen  []string
}

func newSleeper(t *testing.T) *sleeper {
	s := &sleeper{rig: newRig(t, Options{}), start: time.Now()}
	must(t, s.q.Close())
	return s
}

// schedule adds an event that is due when d has passed.
func (s *sleeper) schedule(d time.Duration) (id string, err error) {
	return s.rec.Schedule().Add(ctx, persist.Job{Action: "note", At: time.Now().Add(d)})
}

// wake opens both, the queue first or last.
func (s *sleeper) wake(first bool) {
	s.t.Helper()
	s.clock = s.host.clock()
	s.opts.Clock = s.clock
	if first {
		s.open2()
	}
	var err error
	s.rec, err = persist.Open(ctx, s.actor, &persist.Options{Create: true, Env: part.Env{Clock: s.clock}})
	must(s.t, err)
	must(s.t, s.rec.Schedule().Start(ctx, func(string) persist.Action {
		return func(_ context.Context, f *persist.Firing) error {
			s.note("event " + f.Event.ID)
			return nil
		}
	}))
	if !first {
		s.open2()
	}
}

// sleep closes both, in either order, and the clock.
func (s *sleeper) sleep(first bool) {
	s.t.Helper()
	if first {
		must(s.t, s.q.Close())
	}
	must(s.t, s.rec.Close(ctx))
	must(s.t, s.q.Close())
	s.clock.Close()
}

func (s *sleeper) note(what string) {
	s.seen = append(s.seen, fmt.Sprintf("%v %s", time.Since(s.start), what))
}

// TestSharedClock has an actor that is in memory only when its one clock said it must be:
// every event runs and every message is received at its very time, none displacing
// another, and in the end no actor is to be woken any more.
func TestSharedClock(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			coin := func() bool { return rng.IntN(2) == 0 }
			s := newSleeper(t)
			s.wake(coin())
			var want []string
			plan := func(n int) {
				for range n {
					d := time.Duration(1+rng.IntN(5000)) * time.Second
					at := time.Since(s.start) + d
					if coin() {
						id, err := s.schedule(d)
						must(t, err)
						want = append(want, fmt.Sprintf("%v event %s", at, id))
						continue
					}
					id, err := s.q.Enqueue(ctx, Send{Name: "a", Delay: d})
					must(t, err)
					if want = append(want, fmt.Sprintf("%v message %s", at, id)); coin() {
						continue
					}
					// One that isn't completed comes again when its lease is over.
					_, err = s.q.Enqueue(ctx, Send{Name: "leased"})
					must(t, err)
					m := s.one(ReceiveOptions{Names: []string{"leased"}, Visibility: 2 * d})
					want = append(want, fmt.Sprintf("%v message %s", time.Since(s.start)+2*d, m.ID))
				}
			}
			plan(10)
			for wakes := 0; ; wakes++ {
				synctest.Wait()
				for _, m := range s.try(ReceiveOptions{Count: 99, AtMostOnce: true}) {
					s.note("message " + m.ID.String())
				}
				if wakes == 5 {
					plan(5)
				}
				s.sleep(coin())
				if s.host.at().IsZero() {
					break
				}
				if late := time.Since(s.host.at()); late > 0 || wakes > 50 {
					t.Fatalf("the actor is to be woken %v ago, for the %dth time", late, wakes)
				}
				later(time.Until(s.host.at()))
				s.wake(coin())
			}
			slices.Sort(want)
			got := slices.Sorted(slices.Values(s.seen))
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: got\n%q, want\n%q", seed, got, want)
			}
		})
	}
}

// TestSharedClockAwake: awake, too, each comes at its time, and the host is told the
// earliest of all.
func TestSharedClockAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSleeper(t)
		s.wake(true)
		defer s.sleep(false)
		in := func(d time.Duration, what string) {
			t.Helper()
			synctest.Wait()
			if got := time.Until(s.host.at()); got != d || s.host.at().IsZero() {
				t.Errorf("%s: the host wakes the actor in %v, want %v", what, got, d)
			}
		}
		_, err := s.schedule(3 * time.Hour)
		must(t, err)
		in(3*time.Hour, "an event")
		_, err = s.q.Enqueue(ctx, Send{Name: "a", Delay: 2 * time.Hour})
		must(t, err)
		in(2*time.Hour, "a message before it")
		id, err := s.schedule(time.Hour)
		must(t, err)
		in(time.Hour, "an event before that")
		_, err = s.rec.Schedule().Cancel(ctx, id)
		must(t, err)
		in(2*time.Hour, "which is cancelled")
		msgs, err := s.q.Receive(ctx, &ReceiveOptions{AtMostOnce: true})
		if must(t, err); len(msgs) != 1 || time.Since(s.start) != 2*time.Hour {
			t.Errorf("%d messages after %v", len(msgs), time.Since(s.start))
		}
		in(time.Hour, "what is left")
		later(time.Hour)
		if synctest.Wait(); !s.host.at().IsZero() || len(s.seen) != 1 {
			t.Errorf("the host wakes the actor at %v; seen %q", s.host.at(), s.seen)
		}
	})
}
