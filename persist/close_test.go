package persist

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestClose: what isn't saved is saved by Close, and if it can't, Close says so and can
// be called again.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(nil)
		s := state(t, r)
		for range 3 {
			must(t, s.Mutate(ctx, add(1)))
			synctest.Wait() // until the first is saved, which doesn't wait for the timer
		}
		w.refuse(2)
		wantErr(t, r.Close(ctx), batch.ErrTooLarge)
		if got(t, s) != 3 {
			t.Errorf("count %d", got(t, s))
		}
		must(t, s.Mutate(ctx, add(1)))
		w.eng.Heal()
		must(t, r.Close(ctx))
		must(t, r.Close(ctx))
		wantErr(t, s.Mutate(ctx, add(1)), ErrClosed)
		wantErr(t, r.Save(ctx, now), ErrClosed)
		_, err := s.Get()
		wantErr(t, err, ErrClosed)
		if r := w.open(nil); got(t, state(t, r)) != 4 {
			t.Errorf("count %d", got(t, state(t, r)))
		}
	})
}

// TestCloseWaits: Close waits for a save that is under way.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(nil)
		s := state(t, r)
		pause := w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		must(t, s.Mutate(ctx, add(1)))
		<-pause.Reached()
		must(t, s.Mutate(ctx, add(1)))
		short, cancel := context.WithTimeout(ctx, sec)
		defer cancel()
		wantErr(t, r.Close(short), context.DeadlineExceeded)
		closed := make(chan error)
		go func() { closed <- r.Close(ctx) }()
		synctest.Wait()
		pause.Release()
		must(t, <-closed)
		if w.countIn() != 2 {
			t.Errorf("stored %d", w.countIn())
		}
	})
}

// TestCloseLate: a Record whose actor was closed before it says what is lost.
func TestCloseLate(t *testing.T) {
	w := newWorld(t)
	r := w.open(&Options{SaveInterval: time.Hour})
	s := state(t, r)
	must(t, s.Mutate(ctx, add(1)))
	must(t, r.Save(ctx, now))
	must(t, s.Mutate(ctx, add(1)))
	must(t, w.actor.Close())
	wantErr(t, r.Close(ctx), actorstore.ErrClosed)
	must(t, r.Close(ctx))
}

// TestSaveQuota: a state that the quota has no room for stays, until there is.
func TestSaveQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no retry comes before there is room
		w := newWorld(t)
		w.limits.Storage = 4000
		r := w.open(&Options{SaveInterval: time.Hour})
		s := state(t, r)
		must(t, w.actor.Put(ctx, actorstore.UserKey(nil), make([]byte, 3000)))
		must(t, s.Set(ctx, count{Count: 1, Pad: string(make([]byte, 2000))}))
		wantErr(t, r.Save(ctx, now), actorstore.ErrQuota)
		must(t, w.actor.Delete(ctx, actorstore.UserKey(nil)))
		must(t, r.Save(ctx, now))
		// What a save replaces is credited: twice the state would not fit.
		must(t, s.Set(ctx, count{Count: 2, Pad: string(make([]byte, 2100))}))
		must(t, r.Save(ctx, now))
		if w.countIn() != 2 {
			t.Errorf("stored %d", w.countIn())
		}
	})
}

// BenchmarkSave compares a change that is saved with the same bytes put by themselves.
func BenchmarkSave(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		w := newWorld(b)
		r := w.open(&Options{SaveInterval: time.Hour})
		s, err := OpenState[count](ctx, r, nil)
		must(b, err)
		v := count{Pad: string(make([]byte, size))}
		b.Run("save/"+strconv.Itoa(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v.Count++
				must(b, s.Set(ctx, v))
				must(b, r.Save(ctx, now))
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
