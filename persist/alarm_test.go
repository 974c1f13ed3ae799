package persist

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A host wakes actors: it knows what their clocks have told it.
type host struct {
	mu    sync.Mutex
	start time.Time
	told  []string
}

func newHost() *host { return &host{start: time.Now()} }

func (h *host) clock() *alarm.Clock {
	return alarm.New(&alarm.Options{OnChange: func(next time.Time) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if next.IsZero() {
			h.told = append(h.told, "never")
		} else {
			h.told = append(h.told, next.Sub(h.start).String())
		}
	}})
}

// want compares what the host was told since the last call.
func (h *host) want(t *testing.T, when string, told ...string) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.told, told) {
		t.Errorf("%s: the host is told %v, want %v", when, h.told, told)
	}
	h.told = nil
}

// TestAlarmOutlives: the alarm is that of what is stored, before Start, while the Record
// is being closed, and when it is closed, so that the actor can sleep and is woken.
func TestAlarmOutlives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d, h := newWorld(t), newDiary(), newHost()
		clock := h.clock()
		o := &Options{Env: part.Env{Clock: clock}}
		s := w.open(o).Schedule()
		h.want(t, "opened")
		_, err := addAfter(s, 5*sec, "note", "a")
		must(t, err)
		h.want(t, "added, not started", "5s")
		_, err = addAfter(s, 3*sec, "note", "b")
		must(t, err)
		h.want(t, "an earlier one", "3s")
		must(t, s.Start(ctx, acts{"note": d.note}.lookup))
		pass(4 * sec)
		h.want(t, "one has run", "5s")
		must(t, w.rec.Close(ctx))
		clock.Close()
		h.want(t, "closed")
		pass(20 * sec)
		if next := clock.Next().Sub(h.start); next != 5*sec || d.take() != "b@3s" {
			t.Errorf("the clock says %v", next)
		}
		// The next process knows by itself, and what is overdue stays so until Start.
		clock = h.clock()
		defer clock.Close()
		s = w.open(&Options{Env: part.Env{Clock: clock}}).Schedule()
		pass(sec)
		h.want(t, "opened again", "5s")
		must(t, s.Start(ctx, acts{"note": d.note}.lookup))
		h.want(t, "all has run", "never")
		if got := d.take(); got != "a@25s" {
			t.Errorf("ran %s", got)
		}
		must(t, w.rec.Close(ctx))
		h.want(t, "closed again")
	})
}

// TestAlarmWhileRunning: an event counts until its end is stored, whatever else is
// scheduled meanwhile: if the process ends before that, the host must wake the actor.
func TestAlarmWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHost()
		clock := h.clock()
		defer clock.Close()
		var s *Schedule
		s = w.start(&Options{Env: part.Env{Clock: clock}}, acts{"late": func(context.Context, *Firing) error { return nil },
			"adds": func(ctx context.Context, f *Firing) error {
				if _, err := addAfter(s, time.Hour, "late"); err != nil {
					return err
				}
				pass(sec)
				return nil
			}})
		_, err := addAfter(s, sec, "adds")
		must(t, err)
		pause := w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: 1, Times: 1})
		pass(5 * sec)
		<-pause.Reached()
		h.want(t, "the end isn't stored", "1s")
		if next := s.wakes().Sub(h.start); next != sec {
			t.Errorf("the schedule says %v", next)
		}
		pause.Release()
		h.want(t, "it is", "1h0m1s")
	})
}

// TestAlarmFailing: an event that failed has the actor woken for its next attempt; one
// that is parked doesn't.
func TestAlarmFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHost()
		clock := h.clock()
		defer clock.Close()
		s := w.start(&Options{Env: part.Env{Clock: clock}, MaxAttempts: 2, RetryMin: 10 * sec},
			acts{"fails": func(context.Context, *Firing) error { return errors.New("no") }})
		_, err := addAfter(s, sec, "fails")
		must(t, err)
		pass(2 * sec)
		h.want(t, "failed once", "1s", "11s")
		pass(10 * sec)
		h.want(t, "parked", "never")
	})
}

// TestActionMissing: an event whose action is missing stays as it is, costs nothing, wakes
// no host and keeps no other event waiting, until its action is there.
func TestActionMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h, d := newWorld(t), newHost(), newDiary()
		clock := h.clock()
		defer clock.Close()
		actions := acts{"note": d.note}
		opts := &Options{Env: part.Env{Clock: clock, Logger: w.log.logger()}, MaxAttempts: 1, CountFirst: true}
		s := w.start(opts, actions)
		for range 2 {
			_, err := addAfter(s, sec, "missing", "m")
			must(t, err)
		}
		_, err := addAfter(s, 2*sec, "note", "n")
		must(t, err)
		w.eng.Reset()
		pass(time.Second)
		h.want(t, "without an action", "1s", "2s")
		if c := w.eng.Counts(); c.Commits != 0 || w.notes() != 0 {
			t.Errorf("%d commits, %d notes", c.Commits, w.notes())
		}
		pass(time.Hour)
		h.want(t, "after the last other event", "never")
		if got := d.take(); got != "n@2s" {
			t.Errorf("ran %s", got)
		}
		if n := w.log.lines("there is no action"); n != 1 {
			t.Errorf("it was logged %d times: %s", n, w.log.b.String())
		}
		if !s.wakes().IsZero() {
			t.Errorf("the actor must be awake at %v", s.wakes())
		}
		all, err := s.List()
		must(t, err)
		if len(all) != 2 || all[0].Attempts != 0 || all[0].Parked || all[0].LastError != "" {
			t.Errorf("listed %+v", all)
		}
		must(t, s.Retry(ctx, all[0].ID)) // which finds it missing again
		pass(0)
		if got, again := d.take(), s.wakes(); got != "" || !again.IsZero() {
			t.Errorf("ran %s, the next at %v", got, again)
		}
		w.leave()
		opts.Clock = nil
		w.start(opts, acts{})
		pass(sec)
		if n := w.log.lines("there is no action"); n != 2 {
			t.Errorf("after a restart it was logged %d times", n)
		}
		w.leave()
		found := func(string) Action { return nil }
		r := w.open(opts)
		if next := r.Schedule().wakes(); next.IsZero() {
			t.Error("before the look nothing is due")
		}
		must(t, r.Schedule().Start(ctx, func(name string) Action { return found(name) }))
		pass(sec)
		found = acts{"missing": d.note}.lookup
		r.Schedule().Reconsider()
		pass(0)
		if got := d.take(); strings.Count(got, "m@") != 2 {
			t.Errorf("ran %s", got)
		}
		if all, err := r.Schedule().List(); err != nil || len(all) != 0 {
			t.Errorf("left %+v, %v", all, err)
		}
	})
}

// TestAlarmShared: a Record that is opened again on the same clock takes the place of the
// one before.
func TestAlarmShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHost()
		clock := h.clock()
		defer clock.Close()
		s := w.start(&Options{Env: part.Env{Clock: clock}}, acts{})
		id, err := addAfter(s, time.Hour, "a")
		must(t, err)
		must(t, w.rec.Close(ctx))
		r, err := Open(ctx, w.actor, &Options{Env: part.Env{Clock: clock, Logger: w.log.logger()}})
		must(t, err)
		h.want(t, "opened again", "1h0m0s")
		if found, err := r.Schedule().Cancel(ctx, id); err != nil || !found {
			t.Errorf("cancelled %v, %v", found, err)
		}
		h.want(t, "cancelled", "never")
		must(t, r.Close(ctx))
	})
}

// TestActionFoundMeanwhile: an action that comes while the schedule finds it missing is
// called.
func TestActionFoundMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		r := w.open(nil)
		s := r.Schedule()
		_, err := addAfter(s, 0, "late", "l")
		must(t, err)
		looked := 0
		must(t, s.Start(ctx, func(string) Action {
			if looked++; looked == 1 {
				s.Reconsider() // which has come before the answer
				return nil
			}
			return d.note
		}))
		pass(0)
		if got := d.take(); got != "l@0s" || s.Missing() {
			t.Errorf("ran %q, missing %v", got, s.Missing())
		}
		w.leave()
	})
}
