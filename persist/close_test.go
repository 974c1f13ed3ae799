package persist

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestClose: a Record that is closed refuses everything, and what was changed is stored.
func TestClose(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	s := counter{r}
	must(t, s.mutate(ctx, add(3)))
	var b batch.Batch
	must(t, r.In(&b).SetRawState(encoded(count{Count: 9})))
	w.eng.Reset()
	must(t, r.Close(ctx))
	must(t, r.Close(ctx))
	if n := w.eng.Counts(); n.Commits+n.Syncs != 0 {
		t.Errorf("Close made %d commits and %d syncs", n.Commits, n.Syncs)
	}
	wantErr(t, s.mutate(ctx, add(1)), ErrClosed)
	wantErr(t, w.actor.Commit(ctx, &b), ErrClosed) // it was staged before
	_, err := s.get()
	wantErr(t, err, ErrClosed)
	if r := w.open(nil); got(t, r) != 3 {
		t.Errorf("count %d", got(t, r))
	}
}

// TestCloseWaits: Close waits for the commit that is under way, as long as its context
// says, and leaves to the clock what that has scheduled.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		clock := alarm.New(nil)
		defer clock.Close()
		r := w.open(&Options{Env: part.Env{Clock: clock}})
		s := counter{r}
		pause := w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		changed, at := make(chan error, 1), time.Now().Add(time.Hour)
		go func() {
			_, err := addAt(r.Schedule(), at, "a")
			changed <- err
		}()
		<-pause.Reached()
		short, cancel := context.WithTimeout(ctx, sec)
		defer cancel()
		wantErr(t, r.Close(short), context.DeadlineExceeded)
		if _, err := s.get(); err != nil {
			t.Errorf("closed after an error: %v", err)
		}
		closed := make(chan error, 1)
		go func() { closed <- r.Close(ctx) }()
		synctest.Wait()
		pause.Release()
		must(t, <-closed)
		must(t, <-changed)
		if next := clock.Next(); !next.Equal(at) {
			t.Errorf("the actor is to be woken at %v, want %v", next, at)
		}
	})
}

// TestCloseLate: a Record may be closed behind its actor.
func TestCloseLate(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	must(t, w.actor.Close())
	must(t, r.Close(ctx))
	must(t, r.Close(ctx))
}

// TestQuota: a state that the quota has no room for fails the transaction that brings it,
// and keeps nothing else from being stored.
func TestQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.Storage = 4000
		r := w.open(nil)
		s := counter{r}
		id, err := addAfter(r.Schedule(), time.Hour, "a")
		must(t, err)
		must(t, s.set(ctx, count{Count: 1}))
		must(t, w.actor.Put(ctx, actorstore.UserKey(nil), make([]byte, 3000)))
		wantErr(t, s.set(ctx, count{Count: 2, Pad: string(make([]byte, 2000))}), actorstore.ErrQuota)
		if got(t, r) != 1 || w.countIn() != 1 {
			t.Errorf("count %d, stored %d", got(t, r), w.countIn())
		}
		if found, err := r.Schedule().Cancel(ctx, id); err != nil || !found {
			t.Errorf("Cancel: %v, %v", found, err)
		}
		must(t, w.actor.Delete(ctx, actorstore.UserKey(nil)))
		must(t, s.set(ctx, count{Count: 2, Pad: string(make([]byte, 2000))}))
		// What a change replaces is credited: twice the state would not fit.
		must(t, s.set(ctx, count{Count: 3, Pad: string(make([]byte, 2100))}))
		if w.countIn() != 3 {
			t.Errorf("stored %d", w.countIn())
		}
	})
}

// BenchmarkSet compares a change of the state with the same bytes put by themselves.
func BenchmarkSet(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		w := newWorld(b)
		r := w.open(nil)
		s := counter{r}
		v := count{Pad: string(make([]byte, size))}
		b.Run("set/"+strconv.Itoa(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v.Count++
				must(b, s.set(ctx, v))
			}
		})
		b.Run("put/"+strconv.Itoa(size), func(b *testing.B) {
			b.ReportAllocs()
			value := make([]byte, size+30)
			for b.Loop() {
				must(b, w.actor.Put(ctx, []byte{4}, value))
			}
		})
	}
}
