package persist

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

var applied = &SaveOptions{Immediate: true, Applied: true}

// landing is conns that say which commit had some of them.
type landing struct {
	telling
	actor *actorstore.Actor
	seq   atomic.Uint64
}

func (l *landing) Stage(b *batch.Batch) error {
	if l.Changed() > 0 {
		b.OnCommit(func() { l.seq.Store(l.actor.Seq()) })
	}
	return l.telling.Stage(b)
}

func (l *landing) Landed() uint64 { return l.seq.Load() }

// TestDurableAfterApplied: a save that wants stable storage gets it for all that was
// saved before, also if nothing is left to write; so does Close.
func TestDurableAfterApplied(t *testing.T) {
	ways := map[string]func(w *world, s *State[count], c *landing){
		"connections": func(w *world, _ *State[count], c *landing) {
			c.set("a", 1)
			must(t, w.rec.Save(ctx, applied))
		},
		"state": func(w *world, s *State[count], _ *landing) {
			must(t, s.Mutate(ctx, add(1)))
			must(t, w.rec.Save(ctx, applied))
		},
		"somebody's state": func(w *world, s *State[count], _ *landing) {
			var b batch.Batch
			s.StageMutate(&b, add(1))
			must(t, w.actor.Apply(ctx, &b))
		},
		"somebody's event": func(w *world, _ *State[count], _ *landing) {
			var b batch.Batch
			_, err := w.rec.Schedule().StageAdd(&b, Job{Action: "a", At: time.Now()})
			must(t, err)
			must(t, w.actor.Apply(ctx, &b))
		},
		"somebody's connections": func(w *world, _ *State[count], c *landing) {
			var b batch.Batch
			c.set("a", 1)
			must(t, c.Stage(&b))
			must(t, w.actor.Apply(ctx, &b))
		},
	}
	ends := map[string]func(*Record) error{
		"Save":      func(r *Record) error { return r.Save(ctx, now) },
		"Save soon": func(r *Record) error { return r.Save(ctx, nil) },
		"Close":     func(r *Record) error { return r.Close(ctx) },
	}
	for how, change := range ways {
		for end, wait := range ends {
			t.Run(how+"/"+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testDurableAfterApplied(t, change, end == "Close", wait) })
			})
		}
	}
}

func testDurableAfterApplied(t *testing.T, change func(*world, *State[count], *landing), ends bool, wait func(*Record) error) {
	w, c := newWorld(t), &landing{}
	r := w.open(&Options{Connections: c, SaveInterval: time.Hour})
	c.actor = w.actor
	s := state(t, r)
	must(t, s.Mutate(ctx, add(1)))
	must(t, r.Save(ctx, now)) // from here on none begins by itself within the hour
	synctest.Wait()
	w.eng.Reset()
	change(w, s, c)
	must(t, r.Save(ctx, applied))
	if n := w.eng.Counts(); n.Commits != 1 || n.Durable+n.Syncs != 0 {
		t.Fatalf("the change was more than applied: %+v", n)
	}
	must(t, wait(r))
	if n := w.eng.Counts(); n.Commits != 1 || n.Syncs != 1 {
		t.Errorf("nothing was synced: %+v", n)
	}
	if ends {
		return
	}
	must(t, wait(r))
	must(t, r.Close(ctx))
	if n := w.eng.Counts(); n.Commits != 1 || n.Syncs != 1 {
		t.Errorf("synced again: %+v", n)
	}
}

// TestDurableUntold: a Stager that can't tell which commits had its connections is
// believed to have been in any, and costs a sync only if the last one was not waited for.
func TestDurableUntold(t *testing.T) {
	w, c := newWorld(t), &telling{}
	r := w.open(&Options{Connections: c})
	state(t, r)
	var b batch.Batch
	c.set("a", 1)
	must(t, c.Stage(&b))
	must(t, w.actor.Apply(ctx, &b))
	w.eng.Reset()
	must(t, r.Save(ctx, now))
	must(t, w.actor.Put(ctx, actorstore.UserKey(nil), nil))
	must(t, r.Save(ctx, now))
	if n := w.eng.Counts(); n.Commits != 1 || n.Syncs != 1 {
		t.Errorf("%+v", n)
	}
}

// slow is conns whose memory doesn't follow the store before it is let.
type slow struct {
	telling
	goOn chan struct{}
}

func (c *slow) Stage(b *batch.Batch) error {
	b.OnCommit(func() { <-c.goOn })
	return c.telling.Stage(b)
}

// TestAppliedFollows: who waits until a save is applied finds everything saved then.
func TestAppliedFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t), &slow{goOn: make(chan struct{})}
		r := w.open(&Options{Connections: c, SaveInterval: time.Hour})
		state(t, r)
		c.set("a", 1)
		done := make(chan error, 1)
		go func() { done <- r.Save(ctx, applied) }()
		synctest.Wait()
		if len(done) > 0 {
			t.Error("told before memory has followed the store")
		}
		close(c.goOn)
		must(t, <-done)
		if !r.Saved() {
			t.Error("not saved")
		}
	})
}

// TestSyncFails: a sync that fails is told by the Save that wanted it, and by Close: what
// was applied may be lost.
func TestSyncFails(t *testing.T) {
	for _, end := range []func(*Record) error{
		func(r *Record) error { return r.Save(ctx, now) },
		func(r *Record) error { return r.Close(ctx) },
	} {
		w, c := newWorld(t), &telling{}
		r := w.open(&Options{Connections: c, SaveInterval: time.Hour})
		state(t, r)
		c.set("a", 1)
		must(t, r.Save(ctx, applied))
		w.eng.Fail(faultkv.Rule{Point: faultkv.BeforeSync})
		wantErr(t, end(r), actorstore.ErrPoisoned)
		if err := r.Close(ctx); err != nil {
			wantErr(t, err, actorstore.ErrPoisoned)
		}
	}
}

// TestSyncLeaves: who doesn't want to wait for a sync any more leaves it undone, and the
// next one waits for it.
func TestSyncLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t), &telling{}
		r := w.open(&Options{Connections: c, SaveInterval: time.Hour})
		state(t, r)
		c.set("a", 1)
		must(t, r.Save(ctx, applied))
		pause := w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeSync, Times: 1})
		short, cancel := context.WithTimeout(ctx, sec)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- r.Save(short, now) }()
		<-pause.Reached()
		pass(2 * sec)
		pause.Release()
		wantErr(t, <-done, context.DeadlineExceeded)
		w.eng.Reset()
		must(t, r.Save(ctx, now))
		if n := w.eng.Counts(); n.Syncs != 1 {
			t.Errorf("%+v", n)
		}
	})
}
