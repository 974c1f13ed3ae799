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

// TestStage: a staged change is made by its commit, with what memory has by then.
func TestStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(nil)
		s := counter{r}
		var b batch.Batch
		later(r, &b, add(1))
		later(r, &b, func(c *count) error { c.Count *= 2; return nil })
		id, err := r.In(&b).Add(Job{Action: "a", At: time.Now().Add(time.Hour)})
		must(t, err)
		b.PutPrior(actorstore.UserKey([]byte("k")), []byte("v"), batch.Absent)
		must(t, s.mutate(ctx, add(10)))
		if got(t, r) != 10 {
			t.Errorf("count %d before the commit", got(t, r))
		}
		w.eng.Reset()
		must(t, w.actor.Commit(ctx, &b))
		if n := w.eng.Counts(); n.Commits != 1 || n.Gets+n.Scans != 0 {
			t.Errorf("%d commits, %d reads", n.Commits, n.Gets+n.Scans)
		}
		all, err := r.Schedule().List()
		if must(t, err); len(all) != 1 || all[0].ID != id {
			t.Errorf("listed %v", all)
		}
		if got(t, r) != 22 || w.countIn() != 22 {
			t.Errorf("count %d, stored %d", got(t, r), w.countIn())
		}
		var set batch.Batch
		must(t, r.In(&set).SetRawState(encoded(count{Count: 7})))
		must(t, r.In(&set).Cancel(id))
		w.eng.Reset()
		must(t, w.actor.Apply(ctx, &set))
		if n := w.eng.Counts(); n.Commits != 1 || n.Durable+n.Syncs != 0 {
			t.Errorf("%d commits, %d durable", n.Commits, n.Durable+n.Syncs)
		}
		if got(t, r) != 7 || len(list(t, r.Schedule())) != 0 {
			t.Errorf("count %d, listed %v", got(t, r), list(t, r.Schedule()))
		}
		wantErr(t, r.In(&set).Cancel("x"), batch.ErrSettled)
	})
}

// TestRefused: a batch that is refused may be committed again, on what has landed meanwhile.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	var before, between, b, spare batch.Batch
	for _, id := range []string{"gone", "moved", "kept"} {
		_, err := r.In(&before).Add(Job{ID: id, Action: "a", At: time.UnixMilli(1)})
		must(t, err)
	}
	must(t, w.actor.Commit(ctx, &before))
	must(t, mutate(r.In(&b), add(10)))
	must(t, r.In(&b).Cancel("gone"))
	for _, id := range []string{"late", "moved"} {
		_, err := r.In(&b).Add(Job{ID: id, Action: "a", At: time.UnixMilli(2)})
		must(t, err)
	}
	b.Mark(&spare)
	w.refuse(1)
	wantErr(t, w.actor.Commit(ctx, &b), batch.ErrTooLarge)
	_, err := r.In(&between).Add(Job{ID: "between", Action: "a", At: time.UnixMilli(1)})
	must(t, err)
	must(t, w.actor.Commit(ctx, &between))
	must(t, w.actor.Commit(ctx, &b))
	if got(t, r) != 10 || w.countIn() != 10 || len(w.stored().Events) != 4 || !slices.Equal(list(t, r.Schedule()), []string{"kept", "between", "late", "moved"}) {
		t.Errorf("count %d, stored %d, events %v", got(t, r), w.countIn(), w.stored().Events)
	}
	w.healthy()
}

// TestStageFails: a staged change that isn't committed leaves nothing.
func TestStageFails(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	s := counter{r}
	must(t, s.set(ctx, count{Count: 3}))
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		stage func(b *batch.Batch)
		want  error
	}{
		"its own error": {func(b *batch.Batch) { must(t, r.In(b).do(func(*Tx) error { return boom })) }, boom},
		"too large": {func(b *batch.Batch) {
			must(t, r.In(b).SetRawState(encoded(count{Pad: strings.Repeat("x", 128<<10)})))
		}, ErrTooLarge},
		"refused": {func(b *batch.Batch) { w.refuse(1); must(t, mutate(r.In(b), add(1))) }, batch.ErrTooLarge},
		"somebody else's": {func(b *batch.Batch) {
			must(t, mutate(r.In(b), add(1)))
			b.Late(func(*batch.Batch) error { return boom })
		}, boom},
		"after the record was staged": {func(b *batch.Batch) {
			must(t, mutate(r.In(b), add(1)))
			b.Late(func(b *batch.Batch) error {
				b.Late(func(b *batch.Batch) error { return r.In(b).do(func(*Tx) error { return boom }) })
				return nil
			})
		}, boom},
	} {
		var b batch.Batch
		c.stage(&b)
		wantErr(t, w.actor.Commit(ctx, &b), c.want)
		if got(t, r) != 3 || w.countIn() != 3 {
			t.Errorf("%s: count %d, stored %d", name, got(t, r), w.countIn())
		}
	}
	must(t, r.Close(ctx))
	var late batch.Batch
	wantErr(t, mutate(r.In(&late), add(1)), ErrClosed)
}

// TestPartLanded: of a batch that landed in part the record isn't stored, as memory has it.
func TestPartLanded(t *testing.T) {
	w := newWorld(t)
	w.limits.Entries = 1
	r := w.open(nil)
	s := counter{r}
	must(t, s.mutate(ctx, add(1)))
	id, err := r.Schedule().Add(ctx, Job{Action: "a", Cron: "@daily"})
	must(t, err)
	short, cancel := context.WithCancel(ctx)
	b := batch.Batch{Mode: batch.Ordered}
	must(t, mutate(r.In(&b), add(1000)))
	must(t, r.In(&b).Cancel(id))
	b.Late(func(b *batch.Batch) error { // behind the record
		b.Put(actorstore.UserKey([]byte("a")), nil)
		return nil
	})
	w.eng.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.AfterCommit {
			cancel()
		}
		return nil
	})
	var part *batch.OrderedError
	if err := w.actor.Commit(short, &b); !errors.As(err, &part) {
		t.Fatalf("got %v", err)
	}
	w.eng.Hook(nil)
	if _, err := w.actor.Get(ctx, actorstore.UserKey([]byte("a")), nil); err != nil {
		t.Fatalf("nothing has landed: %v", err)
	}
	if got(t, r) != 1 || w.countIn() != 1 || len(list(t, r.Schedule())) != 1 {
		t.Fatalf("count %d, stored %d, events %v", got(t, r), w.countIn(), list(t, r.Schedule()))
	}
	if events := w.stored().Events; len(events) != 1 || events[0].Cron != "@daily" {
		t.Errorf("stored %+v", events)
	}
	must(t, s.mutate(ctx, add(1)))
	w.healthy()
}

// TestStageMeanwhile: changes that are staged while another commit is under way see what
// that has made, and readers see nothing of it before.
func TestStageMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(nil)
		s := counter{r}
		pause := w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- s.mutate(ctx, add(1)) }()
		<-pause.Reached()
		short, cancel := context.WithCancel(ctx)
		go func() { second <- s.mutate(short, add(100)) }()
		synctest.Wait()
		cancel()
		wantErr(t, <-second, context.Canceled)
		go func() { second <- s.mutate(ctx, func(c *count) error { c.Count *= 10; return nil }) }()
		added := make(chan error, 1)
		go func() {
			_, err := r.Schedule().Add(ctx, Job{Action: "a", At: time.Now().Add(time.Hour)})
			added <- err
		}()
		synctest.Wait()
		if got(t, r) != 0 {
			t.Errorf("count %d before the commit", got(t, r))
		}
		pause.Release()
		must(t, <-first)
		must(t, <-second)
		must(t, <-added)
		if got(t, r) != 10 || w.countIn() != 10 || len(w.stored().Events) != 1 {
			t.Errorf("count %d, stored %+v", got(t, r), w.stored())
		}
	})
}
