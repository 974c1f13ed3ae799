package persist

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// TestFailing: an event whose action fails is tried again, later and later, keeps its
// count over restarts, and doesn't keep others waiting.
func TestFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		calls := 0
		actions := acts{"note": d.note, "bad": func(_ context.Context, f *Firing) error {
			calls++
			d.write("bad%d@%v", f.Attempt, time.Since(d.start))
			switch {
			case calls == 2:
				panic(errors.New("two"))
			case calls == 4:
				runtime.Goexit()
			case calls == 5:
				return nil
			}
			return fmt.Errorf("no %d", calls)
		}}
		s := w.start(nil, actions)
		_, err := addAfter(s, sec, "bad")
		must(t, err)
		for i := range 3 {
			_, err = addAfter(s, time.Duration(i+1)*sec, "note", "n")
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
		if w.log.lines("goroutine") != 1 {
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
		if all, err := s.List(); err != nil || len(all) != 0 || w.notes() != 0 {
			t.Errorf("listed %+v, %v, %d notes left", all, err, w.notes())
		}
	})
}

// TestParked: an event that failed often enough isn't tried any more, until it is
// asked for.
func TestParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		good := false
		actions := acts{"bad": func(context.Context, *Firing) error {
			d.write("%v", time.Since(d.start))
			if good {
				return nil
			}
			return errors.New("no")
		}}
		o := &Options{MaxAttempts: 3, RetryMin: sec, RetryMax: sec}
		s := w.start(o, actions)
		id, err := addAfter(s, 0, "bad")
		must(t, err)
		pass(time.Minute)
		if got := d.take(); got != "0s 1s 2s" {
			t.Errorf("ran %s", got)
		}
		s = w.start(o, actions)
		pass(time.Minute)
		all, err := s.List()
		if must(t, err); d.take() != "" || len(all) != 1 || !all[0].Parked || all[0].Attempts != 3 || !s.wakes().IsZero() {
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

// TestRetryOrder: an event that is made due again stands where it stood among those of the
// same time.
func TestRetryOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		good := false
		actions := acts{"note": func(ctx context.Context, f *Firing) error {
			if !good {
				return errors.New("no")
			}
			return d.note(ctx, f)
		}}
		s := w.start(&Options{MaxAttempts: 1}, actions)
		want := []string{"a", "b", "c", "d"}
		for _, id := range want {
			_, err := s.Add(ctx, Job{ID: id, Action: "note", Args: []any{id}, At: d.start.Add(sec)})
			must(t, err)
		}
		pass(2 * sec) // all are parked
		s = w.open(nil).Schedule()
		for _, id := range []string{"c", "a", "d", "b"} {
			must(t, s.Retry(ctx, id))
			if got := list(t, s); !slices.Equal(got, want) {
				t.Errorf("after %s: listed %v", id, got)
			}
		}
		good = true
		s = w.start(nil, actions)
		if synctest.Wait(); d.take() != "a@2s b@2s c@2s d@2s" || len(list(t, s)) != 0 {
			t.Errorf("ran %s, left %v", d.take(), list(t, s))
		}
	})
}

// TestRetryRunning: an event that is being tried isn't made due once more beside that.
func TestRetryRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		var s *Schedule
		s = w.start(nil, acts{"self": func(ctx context.Context, f *Firing) error {
			d.write("%d@%v", f.Attempt, time.Since(d.start))
			if err := s.Retry(ctx, f.Event.ID); err != nil || f.Attempt > 1 {
				return err
			}
			return errors.New("once")
		}})
		_, err := addAfter(s, sec, "self")
		must(t, err)
		pass(time.Minute)
		if got := d.take(); got != "1@1s 2@2s" || len(list(t, s)) != 0 || w.notes() != 0 {
			t.Errorf("ran %s, left %v, %d notes", got, list(t, s), w.notes())
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
		deadly := acts{"kill": func(context.Context, *Firing) error { // as far as the store can tell
			calls++
			w.eng.Tear(0)
			<-hang
			return nil
		}}
		s := w.start(o, deadly)
		_, err := addAfter(s, 0, "kill")
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
			actions := acts{"visit": func(_ context.Context, f *Firing) error {
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
				_, err := addAfter(s, sec, "visit")
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
		s := w.start(nil, acts{"put": func(_ context.Context, f *Firing) error {
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
			must(t, w.rec.In(&b).Done(f))
			if err := w.actor.Commit(ctx, &b); err != nil {
				return err
			}
			return errors.New("too late")
		}, "forgets": func(_ context.Context, f *Firing) error {
			d.write("forgets")
			var b batch.Batch
			must(t, w.rec.In(&b).Done(f))
			b.Abort(nil)
			return nil
		}})
		_, err := addAfter(s, 0, "put")
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
		_, err = addAfter(s, 0, "put")
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
			_, err = addAfter(s, 0, a)
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
		s = w.start(nil, acts{"note": d.note, "chain": func(ctx context.Context, f *Firing) error {
			if _, err := addAfter(s, sec, "note", "next"); err != nil {
				return err
			}
			_, err := w.rec.In(f.Batch()).Add(Job{Action: "note", Args: []any{"staged"}, At: time.Now().Add(2 * sec)})
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
			_, err := addAfter(s, 0, a)
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
		s := w.start(nil, acts{"a": func(_ context.Context, f *Firing) error {
			ran++
			var s string
			var v struct{ X float64 }
			none := 7
			if err := errors.Join(f.Arg(0, &s), f.Arg(1, &v), f.Arg(2, &none), f.Arg(-1, &none)); err != nil {
				return err
			}
			if s != "é" || v.X != 1.5 || none != 7 {
				t.Errorf("%q, %v, %d", s, v, none)
			}
			if f.Arg(0, &none) == nil {
				t.Error("a text is a number")
			}
			return nil
		}})
		_, err := addAfter(s, 0, "a", "é", map[string]float64{"x": 1.5})
		must(t, err)
		if synctest.Wait(); ran != 1 {
			t.Errorf("ran %d times", ran)
		}
	})
}

// TestCloseSchedule: Close ends the contexts of actions, waits for them, and nothing
// runs after it.
func TestCloseSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		s := w.start(nil, acts{"note": d.note, "long": func(ctx context.Context, f *Firing) error {
			<-ctx.Done()
			<-time.After(5 * sec)
			d.write("long")
			return nil
		}})
		_, err := addAfter(s, 0, "long")
		must(t, err)
		_, err = addAfter(s, 0, "note", "n")
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
		_, err = addAfter(s, 0, "note")
		wantErr(t, err, ErrClosed)
		wantErr(t, s.Start(ctx, acts{}.lookup), ErrClosed)
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
		type key struct{}
		mine, cancel := context.WithCancel(context.WithValue(ctx, key{}, "v"))
		must(t, s.Start(mine, acts{"v": func(ctx context.Context, _ *Firing) error { d.write("%v", ctx.Value(key{})); return nil }}.lookup))
		_, err := addAfter(s, sec, "v")
		must(t, err)
		pass(2 * sec)
		cancel()
		_, err = addAfter(s, sec, "v")
		must(t, err)
		pass(time.Hour)
		if got := d.take(); got != "v" || len(list(t, s)) != 1 {
			t.Errorf("ran %s", got)
		}
	})
}
