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
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/google/uuid"

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

// acts are actions by name.
type acts map[string]Action

func (a acts) lookup(name string) Action { return a[name] }

// addAt schedules an event at a time, addAfter when d has passed, addCron by an expression.
func addAt(s *Schedule, at time.Time, action string, args ...any) (id string, err error) {
	return s.Add(ctx, Job{Action: action, Args: args, At: at})
}

func addAfter(s *Schedule, d time.Duration, action string, args ...any) (id string, err error) {
	return addAt(s, s.clock.Now().Add(d), action, args...)
}

func addCron(s *Schedule, expr, action string, args ...any) (id string, err error) {
	return s.Add(ctx, Job{Action: action, Args: args, Cron: expr})
}

// start opens a record and starts its schedule.
func (w *world) start(opts *Options, actions acts) *Schedule {
	w.t.Helper()
	s := w.open(opts).Schedule()
	must(w.t, s.Start(ctx, actions.lookup))
	return s
}

// wakes returns when the actor must be awake for its schedule, the zero time for never.
func (s *Schedule) wakes() time.Time {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return s.next((*event).waiting)
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
		s := w.start(nil, acts{"note": d.note})
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
		if !s.wakes().Equal(at) {
			t.Errorf("next at %v, want %v", s.wakes(), at)
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
			_, err := addAfter(s, time.Duration(5-i)*sec, "note", fmt.Sprint(i))
			must(t, err)
		}
		w.leave()
		pass(time.Minute)
		s = w.open(nil).Schedule()
		if synctest.Wait(); d.take() != "" {
			t.Error("something ran before the start")
		}
		must(t, s.Start(ctx, acts{"note": d.note}.lookup))
		synctest.Wait()
		if got, want := d.take(), "4@1m0s 3@1m0s 2@1m0s 1@1m0s 0@1m0s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		wantErr(t, s.Start(ctx, acts{}.lookup), ErrStarted)
	})
}

// TestScheduleStartAgain: when the context of a start is done, the next one goes on with its own actions, also beside an
// action of the start before, which keeps its context.
func TestScheduleStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		s := w.open(nil).Schedule()
		for range 2 {
			_, err := addAfter(s, 0, "note", "x")
			must(t, err)
		}
		over, cancel := context.WithCancel(ctx)
		release := make(chan bool)
		must(t, s.Start(over, acts{"note": func(ctx context.Context, _ *Firing) error {
			<-release
			return context.Cause(ctx)
		}}.lookup))
		synctest.Wait()
		wantErr(t, s.Start(ctx, acts{}.lookup), ErrStarted)
		cancel()
		must(t, s.Start(ctx, acts{"note": d.note}.lookup))
		synctest.Wait()
		if got := d.take(); got != "" {
			t.Errorf("ran %s beside the action of the start before", got)
		}
		release <- true
		pass(time.Hour)
		if got := strings.Count(d.take(), "x@"); got != 2 {
			t.Errorf("%d of two events were run", got)
		}
		w.leave()
		wantErr(t, s.Start(ctx, acts{}.lookup), ErrClosed)
	})
}

// TestScheduleStored: what is scheduled, and its end, are one durable commit each, that
// reads nothing.
func TestScheduleStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		s := w.start(nil, acts{"note": d.note})
		w.eng.Reset()
		one := func(what string) {
			t.Helper()
			synctest.Wait()
			if c := w.eng.Counts(); c.Commits != 1 || c.Durable != 1 || c.Gets+c.Scans != 0 {
				t.Errorf("%s: %+v", what, c)
			}
			w.eng.Reset()
		}
		id, err := addAfter(s, sec, "note", "x", 1, true)
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
		id, err = addCron(s, "0 0 * * *", "note")
		must(t, err)
		one("cron")
		found, err := s.Cancel(ctx, id)
		must(t, err)
		one("cancel")
		if !found || w.notes() != 0 {
			t.Errorf("cancelled %v, %d notes left", found, w.notes())
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
		must(t, counter{r}.set(ctx, count{Count: 5}))
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
			id, err := addAt(s, c.at, "note", fmt.Sprint(c.ms))
			must(t, err)
			i := slices.IndexFunc(w.rec.events, func(e *event) bool { return e.id == id })
			if got := w.rec.events[i].at; got != c.ms {
				t.Errorf("%v is %d, want %d", c.at, got, c.ms)
			}
		}
		soon := time.Now().Add(1500 * time.Microsecond)
		_, err := addAt(s, soon, "note", "soon")
		must(t, err)
		far := time.UnixMilli(math.MaxInt64 / 2).UTC()
		_, err = addAt(s, far, "note", "far")
		must(t, err)
		_, err = addAt(s, time.Unix(math.MaxInt64/1000, 0), "note")
		wantErr(t, err, ErrJob)
		must(t, s.Start(ctx, acts{"note": d.note}.lookup))
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
	_, err := addAt(s, time.Now(), "a", strings.Repeat("x", 128<<10))
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
		s := w.start(nil, acts{"note": d.note})
		w.refuse(1)
		_, err := addAfter(s, sec, "note", "never")
		wantErr(t, err, batch.ErrTooLarge)
		id, err := addAfter(s, sec, "note", "kept")
		must(t, err)
		w.refuse(1)
		found, err := s.Cancel(ctx, id)
		if wantErr(t, err, batch.ErrTooLarge); found {
			t.Error("removed, and not removed")
		}
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
		s := w.start(nil, acts{"note": d.note})
		id, err := addAfter(s, sec, "note", "a")
		must(t, err)
		_, err = addAfter(s, 3*sec, "note", "b")
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
		id, err = addAfter(s, sec, "note", "c")
		must(t, err)
		pause = w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1, Err: batch.ErrTooLarge})
		pause.Release()
		pause = w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		short, cancel := context.WithTimeout(ctx, 2*sec)
		defer cancel()
		found, err := s.Cancel(short, id)
		wantErr(t, err, context.DeadlineExceeded)
		if found {
			t.Error("removed, and not removed")
		}
		pause.Release()
		if synctest.Wait(); d.take() != "c@14s" {
			t.Error("an event that couldn't be cancelled didn't run")
		}
	})
}

// TestCancelAll: with the events the alarm goes, too.
func TestCancelAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := alarm.New(nil)
		defer c.Close()
		s := w.start(&Options{Env: part.Env{Clock: c}}, acts{})
		var b batch.Batch
		for range 3 {
			id, err := addAfter(s, sec, "a")
			must(t, err)
			must(t, w.rec.In(&b).Cancel(id))
		}
		if c.Next().IsZero() {
			t.Error("no alarm")
		}
		must(t, w.actor.Commit(ctx, &b))
		if left := list(t, s); len(left) != 0 || !c.Next().IsZero() || !s.wakes().IsZero() {
			t.Errorf("left %v, alarm at %v", left, c.Next())
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
		s := w.start(&Options{Env: part.Env{Clock: c}}, acts{"note": d.note})
		_, err := addAfter(s, 5*sec, "note", "e")
		must(t, err)
		other.Set(d.start.Add(3 * sec))
		_, err = addAfter(s, 7*sec, "note", "f")
		must(t, err)
		pass(10 * sec)
		if got, want := d.take(), "other@3s e@5s f@7s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		if want := []string{"5s", "3s", "5s", "7s", "never"}; !slices.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
		must(t, w.rec.Close(ctx))
		if !c.Next().IsZero() {
			t.Error("a schedule with nothing in it wants to be woken")
		}
	})
}
