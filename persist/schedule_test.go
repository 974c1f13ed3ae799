package persist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A diary is what actions wrote down.
type diary struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func (d *diary) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// take returns what was written since the last call.
func (d *diary) take() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := strings.Join(d.lines, " ")
	d.lines = nil
	return s
}

// note is an action that writes its first argument and the time since the start.
func (d *diary) note(_ context.Context, f *Firing) error {
	var what string
	if err := f.Arg(0, &what); err != nil {
		return err
	}
	d.write("%s@%v", what, time.Since(d.start))
	return nil
}

func newDiary() *diary { return &diary{start: time.Now()} }

// start opens a record and starts its schedule.
func (w *world) start(opts *Options, actions Actions) *Schedule {
	w.t.Helper()
	s := w.open(opts).Schedule()
	must(w.t, s.Start(ctx, actions.Lookup))
	return s
}

// list returns the ids of the events.
func list(t testing.TB, s *Schedule) (ids []string) {
	t.Helper()
	all, err := s.List()
	must(t, err)
	for _, e := range all {
		ids = append(ids, e.ID)
	}
	return ids
}

// notes returns how many notes the actor has.
func (w *world) notes() (n int) {
	w.t.Helper()
	snap, err := w.actor.Snapshot(ctx)
	must(w.t, err)
	defer snap.Close()
	for _, err := range snap.Notes(ctx, nil) {
		must(w.t, err)
		n++
	}
	return n
}

// TestScheduleOrder runs all that is due, by time, and what has the same time in the
// order in which it was scheduled.
func TestScheduleOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		s := w.start(nil, Actions{"note": d.note})
		at := time.Now().Add(10 * sec)
		for _, j := range []struct {
			id  string
			off time.Duration
		}{{"c", 2}, {"a", 0}, {"b1", 1}, {"b2", 1}, {"a2", 0}, {"b3", 1}, {"late", 5}} {
			_, err := s.Add(ctx, Job{ID: j.id, Action: "note", Args: []any{j.id}, At: at.Add(j.off * sec)})
			must(t, err)
		}
		if got, want := list(t, s), []string{"a", "a2", "b1", "b2", "b3", "c", "late"}; !slices.Equal(got, want) {
			t.Errorf("listed %v, want %v", got, want)
		}
		if !s.Next().Equal(at) {
			t.Errorf("next at %v, want %v", s.Next(), at)
		}
		pass(12 * sec)
		if got, want := d.take(), "a@10s a2@10s b1@11s b2@11s b3@11s c@12s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		if got := list(t, s); !slices.Equal(got, []string{"late"}) || len(w.stored().Events) != 1 {
			t.Errorf("left %v, stored %v", got, w.stored().Events)
		}
	})
}

// TestScheduleOverdue runs at the start all that has become due meanwhile, not one for
// each alarm, and nothing of it before.
func TestScheduleOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		s := w.open(nil).Schedule()
		for i := range 5 {
			_, err := s.After(ctx, time.Duration(5-i)*sec, "note", fmt.Sprint(i))
			must(t, err)
		}
		w.leave()
		pass(time.Minute)
		s = w.open(nil).Schedule()
		if synctest.Wait(); d.take() != "" {
			t.Error("something ran before the start")
		}
		must(t, s.Start(ctx, Actions{"note": d.note}.Lookup))
		synctest.Wait()
		if got, want := d.take(), "4@1m0s 3@1m0s 2@1m0s 1@1m0s 0@1m0s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		wantErr(t, s.Start(ctx, Actions{}.Lookup), ErrStarted)
	})
}

// TestScheduleStored: what is scheduled, and its end, are one durable commit each, that
// reads nothing.
func TestScheduleStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		s := w.start(nil, Actions{"note": d.note})
		w.eng.Reset()
		one := func(what string) {
			t.Helper()
			synctest.Wait()
			if c := w.eng.Counts(); c.Commits != 1 || c.Durable != 1 || c.Gets+c.Scans != 0 {
				t.Errorf("%s: %+v", what, c)
			}
			w.eng.Reset()
		}
		id, err := s.After(ctx, sec, "note", "x", 1, true)
		must(t, err)
		one("after")
		e := w.stored().Events
		if u, err := uuid.Parse(id); err != nil || u.Version() != 4 || len(e) != 1 || e[0].ID != id || string(e[0].Args) != string(unhex(t, "8361780"+"1f5")) {
			t.Errorf("stored %+v for %s", e, id)
		}
		w.eng.Reset()
		pass(sec)
		one("done")
		if len(w.stored().Events) != 0 || d.take() != "x@1s" {
			t.Errorf("stored %+v", w.stored().Events)
		}
		w.eng.Reset()
		_, err = s.Cron(ctx, "0 0 * * *", "note")
		must(t, err)
		one("cron")
		n, err := s.Clear(ctx)
		if must(t, err); n != 1 || w.notes() != 0 {
			t.Errorf("cleared %d, %d notes left", n, w.notes())
		}
	})
}

// TestScheduleVector schedules what the golden record has, and gets its bytes.
func TestScheduleVector(t *testing.T) {
	for _, v := range vectors(t) {
		if v.Name != "with two schedule events" && v.Name != "negative timestamp" {
			continue
		}
		w := newWorld(t)
		r := w.open(nil)
		_, err := OpenState(ctx, r, &StateOptions[count]{Initial: func(context.Context, *Record) (count, error) { return count{Count: 5}, nil }})
		must(t, err)
		want := v.record(t)
		for i := len(want.events) - 1; i >= 0; i-- {
			e := want.events[i]
			job := Job{ID: e.id, Action: e.action, At: time.UnixMilli(e.at)}
			if e.args != nil {
				job.Args = []any{}
			}
			_, err := r.Schedule().Add(ctx, job)
			must(t, err)
		}
		raw, err := w.actor.Get(ctx, recordKey(), nil)
		must(t, err)
		if !bytes.Equal(raw, unhex(t, v.Hex)) {
			t.Errorf("%s: stored %x, want %s", v.Name, raw, v.Hex)
		}
	}
}

// TestScheduleTimes: fractions are rounded up, so that nothing runs early; times before
// 1970 and the zero time have passed.
func TestScheduleTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		s := w.open(nil).Schedule()
		for _, c := range []struct {
			at time.Time
			ms int64
		}{
			{time.UnixMilli(1000), 1000}, {time.UnixMilli(1000).Add(1), 1001}, {time.UnixMilli(1000).Add(-1), 1000},
			{time.UnixMilli(-1000), -1000}, {time.UnixMilli(-1000).Add(1), -999}, {time.UnixMilli(-1000).Add(-1), -1000},
			{time.Time{}, time.Time{}.UnixMilli()}, {time.Unix(0, 1), 1}, {time.Unix(0, -1), 0},
		} {
			id, err := s.At(ctx, c.at, "note", fmt.Sprint(c.ms))
			must(t, err)
			i := slices.IndexFunc(w.rec.events, func(e *event) bool { return e.id == id })
			if got := w.rec.events[i].at; got != c.ms {
				t.Errorf("%v is %d, want %d", c.at, got, c.ms)
			}
		}
		soon := time.Now().Add(1500 * time.Microsecond)
		_, err := s.At(ctx, soon, "note", "soon")
		must(t, err)
		far := time.UnixMilli(math.MaxInt64 / 2).UTC()
		_, err = s.At(ctx, far, "note", "far")
		must(t, err)
		_, err = s.At(ctx, time.Unix(math.MaxInt64/1000, 0), "note")
		wantErr(t, err, ErrJob)
		must(t, s.Start(ctx, Actions{"note": d.note}.Lookup))
		pass(1500 * time.Microsecond)
		if got, want := d.take(), "-62135596800000@0s -1000@0s -1000@0s -999@0s 0@0s 1@0s 1000@0s 1000@0s 1001@0s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		pass(sec)
		if got := d.take(); got != "soon@2ms" {
			t.Errorf("ran %s", got)
		}
		all, err := s.List()
		if must(t, err); len(all) != 1 || !all[0].At.Equal(far) {
			t.Errorf("left %+v", all)
		}
	})
}

// TestScheduleRefuses: what makes no sense is refused before anything is written.
func TestScheduleRefuses(t *testing.T) {
	w := newWorld(t)
	s := w.open(nil).Schedule()
	w.eng.Reset()
	for name, j := range map[string]Job{
		"no action":         {},
		"an id":             {ID: "\xff", Action: "a"},
		"an action":         {Action: "\xff"},
		"NaN":               {Action: "a", Args: []any{math.NaN()}},
		"a bad expression":  {Action: "a", Cron: "no"},
		"two times":         {Action: "a", Cron: "@daily", At: time.Now()},
		"a zone alone":      {Action: "a", Zone: "UTC"},
		"a zone":            {Action: "a", Cron: "@daily", Zone: "Mars/Olympus"},
		"a day that is not": {Action: "a", Cron: "0 0 31 2 *"},
	} {
		if _, err := s.Add(ctx, j); !errors.Is(err, ErrJob) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := s.At(ctx, time.Now(), "a", strings.Repeat("x", 128<<10))
	var size *SizeError
	if !errors.As(err, &size) || size.What != "events" {
		t.Errorf("got %v", err)
	}
	if c := w.eng.Counts(); c.Commits != 0 || len(list(t, s)) != 0 {
		t.Errorf("%d commits, %v", c.Commits, list(t, s))
	}
}

// TestScheduleFails: what isn't stored isn't scheduled, nor cancelled.
func TestScheduleFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		s := w.start(nil, Actions{"note": d.note})
		w.refuse(1)
		_, err := s.After(ctx, sec, "note", "never")
		wantErr(t, err, batch.ErrTooLarge)
		id, err := s.After(ctx, sec, "note", "kept")
		must(t, err)
		w.refuse(2)
		_, err = s.Cancel(ctx, id)
		wantErr(t, err, batch.ErrTooLarge)
		_, err = s.Clear(ctx)
		wantErr(t, err, batch.ErrTooLarge)
		pass(2 * sec)
		if got := d.take(); got != "kept@1s" {
			t.Errorf("ran %s", got)
		}
	})
}

// TestCancel: a cancelled event never begins to run, also if it is due while the commit
// that removes it is under way.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		s := w.start(nil, Actions{"note": d.note})
		id, err := s.After(ctx, sec, "note", "a")
		must(t, err)
		_, err = s.After(ctx, 3*sec, "note", "b")
		must(t, err)
		pause := w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		cancelled := make(chan bool)
		go func() {
			found, err := s.Cancel(ctx, id)
			must(t, err)
			cancelled <- found
		}()
		<-pause.Reached()
		pass(2 * sec) // it is due
		if synctest.Wait(); d.take() != "" {
			t.Error("ran while it was being cancelled")
		}
		pause.Release()
		if !<-cancelled {
			t.Error("not found")
		}
		if found, err := s.Cancel(ctx, id); found || err != nil {
			t.Errorf("found twice: %v, %v", found, err)
		}
		pass(10 * sec)
		if got := d.take(); got != "b@3s" {
			t.Errorf("ran %s", got)
		}
		// One whose removal fails runs then.
		id, err = s.After(ctx, sec, "note", "c")
		must(t, err)
		pause = w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1, Err: batch.ErrTooLarge})
		pause.Release()
		pause = w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		short, cancel := context.WithTimeout(ctx, 2*sec)
		defer cancel()
		_, err = s.Cancel(short, id)
		wantErr(t, err, context.DeadlineExceeded)
		pause.Release()
		if synctest.Wait(); d.take() != "c@14s" {
			t.Error("an event that couldn't be cancelled didn't run")
		}
	})
}

// TestClear: with the events the alarm goes, too.
func TestClear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := alarm.New(nil)
		defer c.Close()
		s := w.start(&Options{Clock: c}, Actions{})
		for range 3 {
			_, err := s.After(ctx, sec, "a")
			must(t, err)
		}
		if c.Next().IsZero() {
			t.Error("no alarm")
		}
		n, err := s.Clear(ctx)
		if must(t, err); n != 3 || !c.Next().IsZero() || !s.Next().IsZero() {
			t.Errorf("cleared %d, alarm at %v", n, c.Next())
		}
		n, err = s.Clear(ctx)
		if must(t, err); n != 0 {
			t.Errorf("cleared %d", n)
		}
	})
}

// TestOneSource: the schedule is one source of the clock, and displaces none.
func TestOneSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		var told []string
		c := alarm.New(&alarm.Options{OnChange: func(next time.Time) {
			if next.IsZero() {
				told = append(told, "never")
			} else {
				told = append(told, next.Sub(d.start).String())
			}
		}})
		defer c.Close()
		other := c.Source(func() { d.write("other@%v", time.Since(d.start)) })
		s := w.start(&Options{Clock: c}, Actions{"note": d.note})
		_, err := s.After(ctx, 5*sec, "note", "e")
		must(t, err)
		other.Set(d.start.Add(3 * sec))
		_, err = s.After(ctx, 7*sec, "note", "f")
		must(t, err)
		pass(10 * sec)
		if got, want := d.take(), "other@3s e@5s f@7s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		if want := []string{"5s", "3s", "5s", "7s", "never"}; !slices.Equal(slices.Compact(told), want) && strings.Join(told, " ") != "5s 3s 5s never 7s never" {
			t.Errorf("told %v, want %v", told, want)
		}
		must(t, w.rec.Close(ctx))
		if !c.Next().IsZero() {
			t.Error("a closed schedule wants to be woken")
		}
	})
}

// TestFailing: an event whose action fails is tried again, later and later, keeps its
// count over restarts, and keeps nobody waiting.
func TestFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		calls := 0
		actions := Actions{"note": d.note, "bad": func(_ context.Context, f *Firing) error {
			calls++
			d.write("bad%d@%v", f.Attempt, time.Since(d.start))
			switch {
			case calls == 2:
				panic(errors.New("two"))
			case calls == 5:
				return nil
			}
			return fmt.Errorf("no %d", calls)
		}}
		s := w.start(nil, actions)
		_, err := s.After(ctx, sec, "bad")
		must(t, err)
		_, err = s.After(ctx, sec, "missing")
		must(t, err)
		for i := range 3 {
			_, err = s.After(ctx, time.Duration(i+1)*sec, "note", "n")
			must(t, err)
		}
		pass(2500 * time.Millisecond)
		if got, want := d.take(), "bad1@1s n@1s bad2@2s n@2s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		all, err := s.List()
		must(t, err)
		bad := all[0]
		if bad.Attempts != 2 || bad.Parked || !strings.Contains(bad.LastError, "two") || bad.NotBefore.Sub(d.start) != 4*sec {
			t.Errorf("listed %+v", bad)
		}
		if w.log.lines("no such action") != 2 || w.log.lines("goroutine") != 1 {
			t.Errorf("log: %s", w.log.b.String())
		}
		w.leave()
		s = w.start(nil, actions)
		if again, err := s.List(); err != nil || again[0].Attempts != 2 || again[0].LastError[:10] != bad.LastError[:10] || again[0].NotBefore != bad.NotBefore {
			t.Errorf("listed after a restart %+v, %v", again[0], err)
		}
		pass(20 * sec)
		if got, want := d.take(), "n@3s bad3@4s bad4@8s bad5@16s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		if all, err := s.List(); err != nil || len(all) != 1 || all[0].Action != "missing" || all[0].Attempts != 5 {
			t.Errorf("listed %+v, %v", all, err)
		}
		if found, err := s.Cancel(ctx, list(t, s)[0]); !found || err != nil || w.notes() != 0 {
			t.Errorf("cancelled %v, %v, %d notes left", found, err, w.notes())
		}
	})
}

// TestParked: an event that has failed often enough isn't tried any more, until it is
// asked for.
func TestParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		good := false
		actions := Actions{"bad": func(context.Context, *Firing) error {
			d.write("%v", time.Since(d.start))
			if good {
				return nil
			}
			return errors.New("no")
		}}
		o := &Options{MaxAttempts: 3, RetryMin: sec, RetryMax: sec}
		s := w.start(o, actions)
		id, err := s.After(ctx, 0, "bad")
		must(t, err)
		pass(time.Minute)
		if got := d.take(); got != "0s 1s 2s" {
			t.Errorf("ran %s", got)
		}
		s = w.start(o, actions)
		pass(time.Minute)
		all, err := s.List()
		if must(t, err); d.take() != "" || len(all) != 1 || !all[0].Parked || all[0].Attempts != 3 || !s.Next().IsZero() {
			t.Errorf("listed %+v", all)
		}
		good = true
		wantErr(t, s.Retry(ctx, "nobody"), ErrNoEvent)
		must(t, s.Retry(ctx, id))
		if synctest.Wait(); d.take() != "2m0s" || len(list(t, s)) != 0 || w.notes() != 0 {
			t.Errorf("left %v, %d notes", list(t, s), w.notes())
		}
	})
}

// TestCountFirst: an action that ends the process is counted, and not called for ever.
func TestCountFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := &Options{MaxAttempts: 2, CountFirst: true, RetryMin: sec}
		calls := 0
		hang := make(chan struct{})
		deadly := Actions{"kill": func(context.Context, *Firing) error { // as far as the store can tell
			calls++
			w.eng.Tear(0)
			<-hang
			return nil
		}}
		s := w.start(o, deadly)
		_, err := s.After(ctx, 0, "kill")
		must(t, err)
		for i := range 2 {
			synctest.Wait()
			close(hang)
			synctest.Wait()
			hang = make(chan struct{})
			w.eng.Heal()
			s = w.start(o, deadly)
			all, err := s.List()
			if must(t, err); len(all) != 1 || all[0].Attempts != i+1 || !strings.Contains(all[0].LastError, "process ended") {
				t.Fatalf("%d: listed %+v", i, all)
			}
			pass(sec << i) // it isn't tried before
		}
		pass(time.Minute)
		if all, err := s.List(); err != nil || calls != 2 || !all[0].Parked {
			t.Errorf("%d calls, listed %+v, %v", calls, all, err)
		}
	})
}

// TestAtLeastOnce: an action whose end isn't stored is called again; one whose end is,
// isn't, wherever the process ends.
func TestAtLeastOnce(t *testing.T) {
	for landed := range 3 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			var torn bool
			actions := Actions{"visit": func(_ context.Context, f *Firing) error {
				n, err := w.actor.Get(ctx, actorstore.UserKey([]byte("n")), nil)
				if err != nil && !errors.Is(err, actorstore.ErrNotFound) {
					return err
				}
				f.Batch().Put(actorstore.UserKey([]byte("n")), append(n, '+'))
				if !torn {
					w.eng.Tear(landed)
					torn = true
				}
				return nil
			}}
			s := w.start(nil, actions)
			for range 2 {
				_, err := s.After(ctx, sec, "visit")
				must(t, err)
			}
			pass(2 * sec)
			w.eng.Heal()
			s = w.start(nil, actions)
			pass(2 * sec)
			n, err := w.actor.Get(ctx, actorstore.UserKey([]byte("n")), nil)
			if must(t, err); string(n) != "++" || len(list(t, s)) != 0 {
				t.Errorf("%d landed: what was staged landed %q, left %v", landed, n, list(t, s))
			}
		})
	}
}

// TestStagedWithEnd: what an action stages lands with the end of its event, or not.
func TestStagedWithEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		var fail atomic.Bool
		fail.Store(true)
		var aborted error
		s := w.start(nil, Actions{"put": func(_ context.Context, f *Firing) error {
			f.Batch().Put(actorstore.UserKey([]byte("k")), []byte("v"))
			f.Batch().OnAbort(func(reason error) { aborted = reason })
			if fail.Load() {
				return errors.New("boom")
			}
			return nil
		}, "done": func(_ context.Context, f *Firing) error {
			d.write("done")
			var b batch.Batch
			b.Put(actorstore.UserKey([]byte("d")), nil)
			f.StageDone(&b)
			if err := w.actor.Commit(ctx, &b); err != nil {
				return err
			}
			return errors.New("too late")
		}, "forgets": func(_ context.Context, f *Firing) error {
			d.write("forgets")
			var b batch.Batch
			f.StageDone(&b)
			b.Abort(nil)
			return nil
		}})
		_, err := s.After(ctx, 0, "put")
		must(t, err)
		synctest.Wait()
		_, err = w.actor.Get(ctx, actorstore.UserKey([]byte("k")), nil)
		wantErr(t, err, actorstore.ErrNotFound)
		if aborted == nil || aborted.Error() != "boom" {
			t.Errorf("aborted with %v", aborted)
		}
		fail.Store(false)
		w.eng.Reset()
		pass(sec)
		if synctest.Wait(); w.eng.Counts().Commits != 1 || len(list(t, s)) != 0 {
			t.Errorf("%d commits", w.eng.Counts().Commits)
		}
		// A commit that is refused is a failure of the attempt.
		fail.Store(true)
		_, err = s.After(ctx, 0, "put")
		must(t, err)
		synctest.Wait()
		fail.Store(false)
		w.refuse(1)
		pass(sec)
		all, err := s.List()
		if must(t, err); len(all) != 1 || all[0].Attempts != 2 || !strings.Contains(all[0].LastError, "too large") {
			t.Errorf("listed %+v", all)
		}
		pass(2 * sec)
		for _, a := range []string{"done", "forgets"} {
			_, err = s.After(ctx, 0, a)
			must(t, err)
		}
		pass(time.Minute)
		if got := d.take(); got != "done forgets" || len(list(t, s)) != 0 {
			t.Errorf("ran %s, left %v", got, list(t, s))
		}
	})
}

// TestActionSchedules: actions use the schedule, their own event, too.
func TestActionSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		var s *Schedule
		s = w.start(nil, Actions{"note": d.note, "chain": func(ctx context.Context, f *Firing) error {
			if _, err := s.After(ctx, sec, "note", "next"); err != nil {
				return err
			}
			_, err := s.StageAdd(f.Batch(), Job{Action: "note", Args: []any{"staged"}, At: time.Now().Add(2 * sec)})
			return err
		}, "cancel": func(ctx context.Context, f *Firing) error {
			if _, err := s.Cancel(ctx, f.Event.ID); err != nil {
				return err
			}
			return errors.New("not tried again all the same")
		}, "again": func(ctx context.Context, f *Firing) error {
			d.write("again%d", f.Attempt)
			if f.Event.Args == nil {
				return nil
			}
			_, err := s.Add(ctx, Job{ID: f.Event.ID, Action: "again", At: time.Now().Add(sec)})
			return err
		}})
		for _, a := range []string{"chain", "cancel"} {
			_, err := s.After(ctx, 0, a)
			must(t, err)
		}
		_, err := s.Add(ctx, Job{ID: "x", Action: "again", Args: []any{}, At: time.Now()})
		must(t, err)
		pass(time.Minute)
		if got, want := d.take(), "again1 next@1s again1 staged@2s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		if left := list(t, s); len(left) != 0 || w.notes() != 0 {
			t.Errorf("left %v, %d notes", left, w.notes())
		}
	})
}

// TestArgs decodes arguments.
func TestArgs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ran := 0
		s := w.start(nil, Actions{"a": func(_ context.Context, f *Firing) error {
			ran++
			var all []any
			var s string
			var v struct{ X float64 }
			none := 7
			if err := errors.Join(f.Args(&all), f.Arg(0, &s), f.Arg(1, &v), f.Arg(2, &none), f.Arg(-1, &none)); err != nil {
				return err
			}
			if len(all) != 2 || s != "é" || v.X != 1.5 || none != 7 {
				t.Errorf("%v, %q, %v, %d", all, s, v, none)
			}
			if f.Arg(0, &none) == nil || f.Args(&none) == nil {
				t.Error("a text is a number")
			}
			return nil
		}})
		_, err := s.After(ctx, 0, "a", "é", map[string]float64{"x": 1.5})
		must(t, err)
		if synctest.Wait(); ran != 1 {
			t.Errorf("ran %d times", ran)
		}
	})
}

// TestCronEvent: a cron event moves with the commit of its end, and comes once for all
// that was missed.
func TestCronEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in a bubble it is midnight, on the first of January 2000
		w, d := newWorld(t), newDiary()
		actions := Actions{"note": d.note}
		s := w.start(nil, actions)
		job := Job{ID: "nightly", Action: "note", Args: []any{"n"}, Cron: "0 3 * * *", Zone: "Europe/Berlin"} // 02:00 UTC
		_, err := s.Add(ctx, job)
		must(t, err)
		pass(2 * time.Hour)
		all, err := s.List()
		if must(t, err); len(all) != 1 || all[0].At.Sub(d.start) != 26*time.Hour || all[0].Cron != job.Cron || all[0].Zone != job.Zone {
			t.Errorf("listed %+v", all)
		}
		// To a reader that knows the record alone it is an event like others.
		raw, err := w.actor.Get(ctx, recordKey(), nil)
		must(t, err)
		rec, err := parseRecord(raw)
		if must(t, err); len(rec.events) != 1 || rec.events[0].action != "note" || string(rec.events[0].args) != "\x81\x61n" {
			t.Errorf("stored %+v", rec)
		}
		w.leave()
		pass(100 * time.Hour)
		s = w.start(nil, actions)
		pass(30 * time.Hour)
		if got, want := d.take(), "n@2h0m0s n@102h0m0s n@122h0m0s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		// Scheduling the same again changes nothing, another one replaces it.
		w.eng.Reset()
		_, err = s.Add(ctx, job)
		must(t, err)
		if c := w.eng.Counts(); c.Commits != 0 {
			t.Errorf("%d commits", c.Commits)
		}
		job.Cron = "0 4 * * *"
		_, err = s.Add(ctx, job)
		must(t, err)
		if all, err := s.List(); err != nil || len(all) != 1 || all[0].Cron != job.Cron || w.notes() != 1 {
			t.Errorf("listed %+v, %v", all, err)
		}
		_, err = s.Add(ctx, Job{ID: "nightly", Action: "note", At: time.Now().Add(sec)})
		must(t, err)
		if all, err := s.List(); err != nil || len(all) != 1 || all[0].Cron != "" || w.notes() != 0 {
			t.Errorf("listed %+v, %v", all, err)
		}
	})
}

// TestCronFailing: a cron event that fails is tried again; given up, it comes the next
// time.
func TestCronFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		s := w.start(&Options{MaxAttempts: 2, RetryMin: time.Minute}, Actions{"bad": func(_ context.Context, f *Firing) error {
			d.write("%d@%v", f.Attempt, time.Since(d.start))
			if len(d.lines) == 3 {
				return nil
			}
			return errors.New("no")
		}})
		_, err := s.Cron(ctx, "@hourly", "bad")
		must(t, err)
		pass(3*time.Hour + 30*time.Minute)
		if got, want := d.take(), "1@1h0m0s 2@1h1m0s 1@2h0m0s 1@3h0m0s 2@3h1m0s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		all, err := s.List()
		if must(t, err); all[0].Attempts != 0 || all[0].Parked || all[0].LastError != "" || w.stored().Events[0].Cron != "@hourly" {
			t.Errorf("listed %+v", all)
		}
	})
}

// TestClockJumps: set forward, the clock makes due what it has passed, within a minute;
// set back, it brings nothing twice.
func TestClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		c := &clockAt{}
		clock := c.clock()
		defer clock.Close()
		s := w.start(&Options{Clock: clock}, Actions{"note": d.note})
		_, err := s.At(ctx, time.Now().Add(24*time.Hour), "note", "tomorrow")
		must(t, err)
		_, err = s.Cron(ctx, "0 * * * *", "note", "hour")
		must(t, err)
		c.jump(25 * time.Hour)
		pass(time.Minute)
		if got, want := d.take(), "hour@1m0s tomorrow@1m0s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		// It shows 25:01 and then 24:11 again: 25:00 has been.
		c.jump(-50 * time.Minute)
		pass(108 * time.Minute)
		if got := d.take(); got != "" {
			t.Errorf("ran %s", got)
		}
		pass(time.Minute)
		if got, want := d.take(), "hour@1h50m0s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
	})
}

// TestClockBackMeanwhile: a clock that is set back while an action runs doesn't bring the
// same hour again.
func TestClockBackMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		c := &clockAt{}
		clock := c.clock()
		defer clock.Close()
		s := w.start(&Options{Clock: clock}, Actions{"back": func(context.Context, *Firing) error {
			d.write("%v", time.Since(d.start))
			if c.ahead == 0 {
				c.jump(-30 * time.Minute)
			}
			return nil
		}})
		_, err := s.Cron(ctx, "@hourly", "back")
		must(t, err)
		pass(2*time.Hour + 40*time.Minute)
		if got, want := d.take(), "1h0m0s 2h30m0s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
	})
}

// TestDamagedNote: an event about which something can't be read is parked, reported, and
// in nobody's way.
func TestDamagedNote(t *testing.T) {
	for name, value := range map[string][]byte{
		"no note":         {1, 0, 7},
		"a newer one":     {2, 0},
		"an unknown zone": appendNote(nil, &note{cron: rule{"@daily", "Mars/Olympus"}}),
		"a bad rule":      appendNote(nil, &note{cron: rule{"x", ""}}),
	} {
		synctest.Test(t, func(t *testing.T) {
			w, d := newWorld(t), newDiary()
			s := w.open(nil).Schedule()
			id, err := s.Cron(ctx, "@hourly", "note", "hour")
			must(t, err)
			_, err = s.After(ctx, sec, "note", "n")
			must(t, err)
			var b batch.Batch
			must(t, w.actor.StageNote(&b, noteKey(id), value))
			must(t, w.actor.Commit(ctx, &b))
			s = w.start(nil, Actions{"note": d.note})
			pass(2 * time.Hour)
			if got := d.take(); got != "n@1s" || w.log.lines("can't be used") != 1 {
				t.Errorf("%s: ran %s, log %s", name, got, w.log.b.String())
			}
			all, err := s.List()
			if must(t, err); len(all) != 1 || !all[0].Parked || all[0].LastError == "" || !w.stored().Events[0].Parked {
				t.Errorf("%s: listed %+v", name, all)
			}
			if found, err := s.Cancel(ctx, id); !found || err != nil || w.notes() != 0 {
				t.Errorf("%s: cancelled %v, %v", name, found, err)
			}
		})
	}
}

// TestForeignEvents: what other programs have stored need not be sorted, nor have ids of
// its own; and an event that they removed is gone, whatever is noted about it.
func TestForeignEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		s := w.open(nil).Schedule()
		_, err := s.Add(ctx, Job{ID: "gone", Action: "note", Cron: "@hourly"})
		must(t, err)
		at := time.Now().UnixMilli()
		rec := record{init: true, state: undefined, events: []stored{
			{"b", at + 2000, "note", []byte("\x81\x61b")},
			{"twice", at + 1000, "note", []byte("\x81\x61x")},
			{"twice", at + 1000, "note", []byte("\x81\x61y")},
			{"", at - 5, "note", []byte("\x81\x61e")},
		}}
		must(t, w.actor.Put(ctx, recordKey(), appendRecord(nil, &rec)))
		s = w.start(nil, Actions{"note": d.note})
		pass(2 * time.Hour)
		if got, want := d.take(), "e@0s x@1s y@1s b@2s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		// A new event under the old id begins anew.
		_, err = s.Add(ctx, Job{ID: "gone", Action: "note", Args: []any{"g"}, At: time.Now()})
		must(t, err)
		pass(2 * time.Hour)
		if got := d.take(); got != "g@2h0m0s" || w.notes() != 0 {
			t.Errorf("ran %s, %d notes left", got, w.notes())
		}
	})
}

// TestCloseSchedule: Close ends the contexts of actions, waits for them, and nothing
// runs after it.
func TestCloseSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		s := w.start(nil, Actions{"note": d.note, "long": func(ctx context.Context, f *Firing) error {
			<-ctx.Done()
			<-time.After(5 * sec)
			d.write("long")
			return nil
		}})
		_, err := s.After(ctx, 0, "long")
		must(t, err)
		_, err = s.After(ctx, 0, "note", "n")
		must(t, err)
		synctest.Wait()
		short, cancel := context.WithTimeout(ctx, sec)
		defer cancel()
		wantErr(t, w.rec.Close(short), context.DeadlineExceeded)
		must(t, w.rec.Close(ctx))
		if got := d.take(); got != "long" || len(w.stored().Events) != 1 {
			t.Errorf("ran %s, stored %v", got, w.stored().Events)
		}
		pass(time.Hour)
		_, err = s.After(ctx, 0, "note")
		wantErr(t, err, ErrClosed)
		wantErr(t, s.Start(ctx, Actions{}.Lookup), ErrClosed)
		if got := d.take(); got != "" {
			t.Errorf("ran %s", got)
		}
	})
}

// TestStartContext: the end of the context that Start got ends the schedule, too.
func TestStartContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		s := w.open(nil).Schedule()
		mine, cancel := context.WithCancel(context.WithValue(ctx, hookKey{}, "v"))
		must(t, s.Start(mine, Actions{"v": func(ctx context.Context, _ *Firing) error { d.write("%v", ctx.Value(hookKey{})); return nil }}.Lookup))
		_, err := s.After(ctx, sec, "v")
		must(t, err)
		pass(2 * sec)
		cancel()
		_, err = s.After(ctx, sec, "v")
		must(t, err)
		pass(time.Hour)
		if got := d.take(); got != "v" || len(list(t, s)) != 1 {
			t.Errorf("ran %s", got)
		}
	})
}

// TestScheduleSavesState: the record is one value, so an event takes the newest state
// with it.
func TestScheduleSavesState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(nil)
		s := state(t, r)
		must(t, s.Mutate(ctx, add(1)))
		synctest.Wait()
		must(t, s.Mutate(ctx, add(1)))
		_, err := r.Schedule().After(ctx, time.Hour, "a")
		must(t, err)
		if w.countIn() != 2 || !r.Saved() {
			t.Errorf("stored %d, saved %v", w.countIn(), r.Saved())
		}
		w.eng.Reset()
		must(t, r.Save(ctx, now))
		if c := w.eng.Counts(); c.Commits != 0 {
			t.Errorf("%d commits", c.Commits)
		}
	})
}
