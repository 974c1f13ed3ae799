package persist

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/batch"
)

// TestCronEvent: a cron event moves with the commit of its end, and comes once for all
// that was missed.
func TestCronEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in a bubble it is midnight, on the first of January 2000
		w, d := newWorld(t), newDiary()
		actions := acts{"note": d.note}
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
		s := w.start(&Options{MaxAttempts: 2, RetryMin: time.Minute}, acts{"bad": func(_ context.Context, f *Firing) error {
			d.write("%d@%v", f.Attempt, time.Since(d.start))
			if len(d.lines) == 3 {
				return nil
			}
			return errors.New("no")
		}})
		_, err := addCron(s, "@hourly", "bad")
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
		s := w.start(&Options{Env: part.Env{Clock: clock}}, acts{"note": d.note})
		_, err := addAt(s, time.Now().Add(24*time.Hour), "note", "tomorrow")
		must(t, err)
		_, err = addCron(s, "0 * * * *", "note", "hour")
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
		s := w.start(&Options{Env: part.Env{Clock: clock}}, acts{"back": func(context.Context, *Firing) error {
			d.write("%v", time.Since(d.start))
			if c.ahead == 0 {
				c.jump(-30 * time.Minute)
			}
			return nil
		}})
		_, err := addCron(s, "@hourly", "back")
		must(t, err)
		pass(2*time.Hour + 40*time.Minute)
		if got, want := d.take(), "1h0m0s 2h30m0s"; got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
	})
}

// TestDamagedNote: an event about which something can't be read is parked, reported, and
// not in the way of others.
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
			id, err := addCron(s, "@hourly", "note", "hour")
			must(t, err)
			_, err = addAfter(s, sec, "note", "n")
			must(t, err)
			var b batch.Batch
			must(t, w.actor.StageNote(&b, noteKey(id), value))
			must(t, w.actor.Commit(ctx, &b))
			s = w.start(nil, acts{"note": d.note})
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

// TestCronParkedAnew: a cron event that is parked runs again once the same is scheduled
// anew, as it is at every start.
func TestCronParkedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newWorld(t), newDiary()
		s := w.open(nil).Schedule()
		job := Job{ID: "hourly", Action: "note", Args: []any{"h"}, Cron: "@hourly"}
		_, err := s.Add(ctx, job)
		must(t, err)
		var b batch.Batch
		parked := note{cron: rule{"@hourly", ""}, attempts: 7, parked: true, problem: "no"}
		must(t, w.actor.StageNote(&b, noteKey(job.ID), appendNote(nil, &parked)))
		must(t, w.actor.Commit(ctx, &b))
		s = w.start(nil, acts{"note": d.note})
		pass(90 * time.Minute)
		if all, err := s.List(); err != nil || d.take() != "" || len(all) != 1 || !all[0].Parked {
			t.Errorf("parked: listed %+v, %v", all, err)
		}
		_, err = s.Add(ctx, job)
		must(t, err)
		pass(time.Hour)
		all, err := s.List()
		if got := d.take(); err != nil || got != "h@2h0m0s" || len(all) != 1 || all[0].Parked || all[0].Attempts != 0 {
			t.Errorf("scheduled anew: ran %s, listed %+v, %v", got, all, err)
		}
	})
}

// TestForeignEvents: what other programs store need not be sorted, nor have ids of
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
		s = w.start(nil, acts{"note": d.note})
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
