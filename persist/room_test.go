package persist

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// crowd opens a record that has a state for which the actor has no room.
func crowd(t *testing.T, w *world, opts *Options) (*Record, *State[count]) {
	t.Helper()
	w.limits.Storage = 4000
	r := w.open(opts)
	s := state(t, r)
	must(t, w.actor.Put(ctx, []byte{4}, make([]byte, 3000)))
	must(t, s.Set(ctx, count{1, strings.Repeat("x", 2000)}))
	wantErr(t, r.Save(ctx, now), actorstore.ErrQuota)
	return r, s
}

// TestNoRoom: a state that can't be stored keeps no event from coming, from being cancelled
// and from running once; it stays in memory, and is stored when there is room.
func TestNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, s := crowd(t, w, &Options{MaxAttempts: 3, SaveInterval: time.Hour})
		sched := r.Schedule()
		runs := map[string]int{}
		must(t, sched.Start(ctx, Actions{
			"batch": func(_ context.Context, f *Firing) error {
				runs["batch"]++
				f.Batch().Put([]byte{4, 1}, []byte("done"))
				return nil
			},
			"own": func(ctx context.Context, f *Firing) error {
				runs["own"]++
				var b batch.Batch
				f.StageDone(&b)
				return w.actor.Commit(ctx, &b)
			},
			"fills": func(_ context.Context, f *Firing) error {
				runs["fills"]++
				f.Batch().Put([]byte{4, 2}, make([]byte, 2000))
				return nil
			},
		}.Lookup))
		for _, action := range []string{"batch", "own", "fills"} {
			_, err := sched.After(ctx, sec, action)
			must(t, err)
		}
		id, err := sched.After(ctx, time.Hour, "batch")
		must(t, err)
		if found, err := sched.Cancel(ctx, id); !found || err != nil {
			t.Errorf("cancelled %v, %v", found, err)
		}
		pass(time.Minute)
		if runs["batch"] != 1 || runs["own"] != 1 || runs["fills"] != 3 {
			t.Errorf("actions ran %v", runs)
		}
		if v, err := w.actor.Get(ctx, []byte{4, 1}, nil); err != nil || string(v) != "done" {
			t.Errorf("the batch of the action: %q, %v", v, err)
		}
		events, err := sched.List()
		must(t, err)
		if len(events) != 1 || events[0].Action != "fills" || !events[0].Parked || !strings.Contains(events[0].LastError, "quota") {
			t.Errorf("events %+v", events)
		}
		if stored := w.stored(); len(stored.Events) != 1 || w.countIn() != 0 {
			t.Errorf("stored %d events, count %d", len(stored.Events), w.countIn())
		}
		if r.Saved() || got(t, s) != 1 {
			t.Errorf("saved %v, count %d", r.Saved(), got(t, s))
		}
		wantErr(t, r.Close(ctx), actorstore.ErrQuota)
		must(t, w.actor.Delete(ctx, []byte{4}))
		must(t, r.Close(ctx))
		if w.countIn() != 1 {
			t.Errorf("stored %d after there was room", w.countIn())
		}
		w.healthy()
	})
}

// TestNoRoomFirst: an event finds out by itself, before any save, that there is no room for
// the state; once there is, and nothing was refused since, it brings the state with it.
func TestNoRoomFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.Storage = 4000
		r := w.open(&Options{SaveInterval: time.Hour})
		s := state(t, r)
		must(t, s.Mutate(ctx, add(1)))
		must(t, r.Save(ctx, now)) // the next is an hour away
		must(t, w.actor.Put(ctx, []byte{4}, make([]byte, 3000)))
		must(t, s.Set(ctx, count{2, strings.Repeat("x", 2000)}))
		_, err := r.Schedule().Add(ctx, Job{ID: "a", Action: "a", At: time.Now().Add(time.Hour)})
		must(t, err)
		if w.countIn() != 1 || r.Saved() {
			t.Errorf("stored %d, saved %v", w.countIn(), r.Saved())
		}
		// Somebody's own batch goes without the state, too, as it can't be tried twice.
		var b batch.Batch
		r.Schedule().StageCancel(&b, "a")
		must(t, w.actor.Commit(ctx, &b))
		if n := len(w.stored().Events); n != 0 || w.countIn() != 1 {
			t.Errorf("stored %d events, count %d", n, w.countIn())
		}
		must(t, w.actor.Delete(ctx, []byte{4}))
		_, err = r.Schedule().Add(ctx, Job{ID: "b", Action: "a", At: time.Now().Add(time.Hour)})
		must(t, err)
		if w.countIn() != 2 || !r.Saved() {
			t.Errorf("with room: stored %d, saved %v", w.countIn(), r.Saved())
		}
		// From then on others' batches bring it again.
		must(t, s.Set(ctx, count{3, strings.Repeat("x", 2100)}))
		var later batch.Batch
		r.Schedule().StageCancel(&later, "b")
		must(t, w.actor.Commit(ctx, &later))
		if w.countIn() != 3 || !r.Saved() {
			t.Errorf("later: stored %d, saved %v", w.countIn(), r.Saved())
		}
		w.healthy()
	})
}

// TestNoRoomSmaller: a state that needs no more room than the stored one goes with events,
// also after a larger one was refused.
func TestNoRoomSmaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, s := crowd(t, w, &Options{SaveInterval: time.Hour})
		must(t, s.Set(ctx, count{Count: 7}))
		var b batch.Batch
		_, err := r.Schedule().StageAdd(&b, Job{Action: "a", At: time.Now().Add(time.Hour)})
		must(t, err)
		must(t, w.actor.Commit(ctx, &b))
		if w.countIn() != 7 || !r.Saved() {
			t.Errorf("stored %d, saved %v", w.countIn(), r.Saved())
		}
		w.healthy()
	})
}

// TestNoRoomConnections: connections are saved past a state for which there is no room, and
// who saves is told of the state.
func TestNoRoomConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, applied := range []bool{false, true} {
			w := newWorld(t)
			c := &telling{}
			r, s := crowd(t, w, &Options{Connections: c, SaveInterval: time.Hour})
			c.set("a", 1)
			err := r.Save(ctx, &SaveOptions{Immediate: true, Applied: applied})
			wantErr(t, err, actorstore.ErrQuota)
			if errors.Is(err, ErrConnections) {
				t.Errorf("%v, and the state is not stored", err)
			}
			if ids := slices.Collect(keys(t, w.actor)); c.Changed() != 0 || !slices.Equal(ids, []string{"a"}) {
				t.Errorf("%d changed, stored %v", c.Changed(), ids)
			}
			if r.Saved() || w.countIn() != 0 || got(t, s) != 1 {
				t.Errorf("saved %v, stored %d, count %d", r.Saved(), w.countIn(), got(t, s))
			}
			// What can't be stored either is told as well, and changed still.
			boom := errors.New("boom")
			c.fail = boom
			c.set("a", 2)
			err = r.Save(ctx, now)
			wantErr(t, err, actorstore.ErrQuota)
			wantErr(t, err, boom)
			c.fail = nil
			must(t, w.actor.Delete(ctx, []byte{4}))
			must(t, r.Close(ctx))
			if c.Changed() != 0 || w.countIn() != 1 {
				t.Errorf("with room: %d changed, stored %d", c.Changed(), w.countIn())
			}
			w.healthy()
		}
	})
}

// TestMutateMeanwhile: a change has to fit with the events that a commit under way brings.
func TestMutateMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(&Options{SaveInterval: time.Hour})
		s := state(t, r)
		pause := w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		added := make(chan error, 1)
		go func() {
			_, err := r.Schedule().After(ctx, time.Hour, "large", make([]byte, 70<<10))
			added <- err
		}()
		<-pause.Reached()
		wantErr(t, s.Set(ctx, count{1, strings.Repeat("x", 70<<10)}), ErrTooLarge)
		must(t, s.Set(ctx, count{2, strings.Repeat("x", 50<<10)}))
		pause.Release()
		must(t, <-added)
		must(t, r.Save(ctx, now))
		if n := len(w.stored().Events); n != 1 || w.countIn() != 2 {
			t.Errorf("stored %d events, count %d", n, w.countIn())
		}
	})
}
