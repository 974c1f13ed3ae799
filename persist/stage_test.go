package persist

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestOnChange: a hook sees the newest state, isn't called by its own changes, and what
// goes wrong in it is logged.
func TestOnChange(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	var s *State[count]
	var seen []int
	hook := func(ctx context.Context, c count) error {
		seen = append(seen, c.Count)
		if c.Count == 2 { // in it, a change and a commit
			must(t, s.Mutate(ctx, add(10)))
		}
		if c.Count == 13 {
			panic("thirteen")
		}
		return errors.New("no")
	}
	s, err := OpenState(ctx, r, &StateOptions[count]{OnChange: hook})
	must(t, err)
	for range 4 {
		must(t, s.Mutate(ctx, add(1)))
	}
	if want := []int{1, 2, 13, 14}; !equal(seen, want) {
		t.Errorf("seen %v, want %v", seen, want)
	}
	if w.log.lines("hook of a change") != 4 || w.log.lines("thirteen") != 1 {
		t.Errorf("log: %s", w.log.b.String())
	}
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestOnChangeMany: of changes that come while a hook runs it is told after the last.
func TestOnChangeMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(nil)
		began, goOn := make(chan struct{}, 1), make(chan struct{})
		var seen []int
		s, err := OpenState(ctx, r, &StateOptions[count]{OnChange: func(_ context.Context, c count) error {
			seen = append(seen, c.Count)
			if len(seen) == 1 {
				began <- struct{}{}
				<-goOn
			}
			return nil
		}})
		must(t, err)
		first := make(chan error)
		go func() { first <- s.Mutate(ctx, add(1)) }()
		<-began
		for range 5 {
			must(t, s.Mutate(ctx, add(1))) // doesn't wait for the hook
		}
		close(goOn)
		must(t, <-first)
		if want := []int{1, 6}; !equal(seen, want) {
			t.Errorf("seen %v, want %v", seen, want)
		}
	})
}

// TestStage: a staged change is made by its commit, with what memory has by then.
func TestStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		told := make(chan int, 10)
		r := w.open(nil)
		s, err := OpenState(ctx, r, &StateOptions[count]{OnChange: func(_ context.Context, c count) error { told <- c.Count; return nil }})
		must(t, err)
		var b batch.Batch
		must(t, Mutate(r.In(&b), add(1)))
		must(t, Mutate(r.In(&b), func(c *count) error { c.Count *= 2; return nil }))
		id, err := r.In(&b).Add(Job{Action: "a", At: time.Now().Add(time.Hour)})
		must(t, err)
		b.PutPrior(actorstore.UserKey([]byte("k")), []byte("v"), batch.Absent)
		must(t, s.Mutate(ctx, add(10)))
		if <-told; got(t, s) != 10 {
			t.Errorf("count %d before the commit", got(t, s))
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
		if got(t, s) != 22 || w.countIn() != 22 || <-told != 22 {
			t.Errorf("count %d, stored %d", got(t, s), w.countIn())
		}
		var set batch.Batch
		must(t, r.In(&set).SetState(count{Count: 7}))
		must(t, r.In(&set).Clear())
		w.eng.Reset()
		must(t, w.actor.Apply(ctx, &set))
		if n := w.eng.Counts(); n.Commits != 1 || n.Durable+n.Syncs != 0 {
			t.Errorf("%d commits, %d durable", n.Commits, n.Durable+n.Syncs)
		}
		if <-told; got(t, s) != 7 || len(list(t, r.Schedule())) != 0 {
			t.Errorf("count %d, listed %v", got(t, s), list(t, r.Schedule()))
		}
		wantErr(t, r.In(&set).Cancel("x"), batch.ErrSettled)
	})
}

// TestJoinedTwice: of batches that were staged apart, and land together, each sees what
// the one before it does.
func TestJoinedTwice(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	s := state(t, r)
	var outer, a, b batch.Batch
	must(t, Mutate(r.In(&a), add(1)))
	must(t, Mutate(r.In(&b), func(c *count) error { c.Count *= 10; return nil }))
	_, err := r.In(&b).Add(Job{ID: "late", Action: "a"})
	must(t, err)
	outer.Join(&a)
	outer.Join(&b)
	if r.In(&outer) != r.In(&a) {
		t.Error("a joined batch has a Tx of its own")
	}
	w.refuse(1)
	wantErr(t, w.actor.Commit(ctx, &outer), batch.ErrTooLarge)
	var second batch.Batch
	second.Join(&a)
	second.Join(&b)
	must(t, w.actor.Commit(ctx, &second))
	if got(t, s) != 10 || w.countIn() != 10 || len(w.stored().Events) != 1 || len(list(t, r.Schedule())) != 1 {
		t.Errorf("count %d, stored %d, events %v", got(t, s), w.countIn(), w.stored().Events)
	}
	w.healthy()
}

// TestStageFails: a staged change that isn't committed leaves nothing.
func TestStageFails(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	s := state(t, r)
	must(t, s.Set(ctx, count{Count: 3}))
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		stage func(b *batch.Batch)
		want  error
	}{
		"its own error": {func(b *batch.Batch) { must(t, Mutate(r.In(b), func(*count) error { return boom })) }, boom},
		"too large": {func(b *batch.Batch) {
			must(t, r.In(b).SetState(count{Pad: strings.Repeat("x", 128<<10)}))
		}, ErrTooLarge},
		"refused": {func(b *batch.Batch) { w.refuse(1); must(t, Mutate(r.In(b), add(1))) }, batch.ErrTooLarge},
		"somebody else's": {func(b *batch.Batch) {
			must(t, Mutate(r.In(b), add(1)))
			b.Late(func(*batch.Batch) error { return boom })
		}, boom},
		"after the record was staged": {func(b *batch.Batch) {
			must(t, Mutate(r.In(b), add(1)))
			b.Late(func(b *batch.Batch) error {
				b.Late(func(b *batch.Batch) error { return Mutate(r.In(b), func(*count) error { return boom }) })
				return nil
			})
		}, boom},
	} {
		var b batch.Batch
		c.stage(&b)
		wantErr(t, w.actor.Commit(ctx, &b), c.want)
		if got(t, s) != 3 || w.countIn() != 3 {
			t.Errorf("%s: count %d, stored %d", name, got(t, s), w.countIn())
		}
	}
	// A batch that failed may be joined to another one.
	var inner, outer, second batch.Batch
	must(t, Mutate(r.In(&inner), add(1)))
	outer.Join(&inner)
	w.refuse(1)
	wantErr(t, w.actor.Commit(ctx, &outer), batch.ErrTooLarge)
	second.Join(&inner)
	must(t, w.actor.Commit(ctx, &second))
	if got(t, s) != 4 || w.countIn() != 4 {
		t.Errorf("count %d, stored %d", got(t, s), w.countIn())
	}
	must(t, r.Close(ctx))
	var late batch.Batch
	wantErr(t, Mutate(r.In(&late), add(1)), ErrClosed)
}

// TestPartLanded: of a batch that landed in part the record isn't stored, as memory has it.
func TestPartLanded(t *testing.T) {
	w := newWorld(t)
	w.limits.Entries = 1
	r := w.open(nil)
	s := state(t, r)
	must(t, s.Mutate(ctx, add(1)))
	id, err := r.Schedule().Add(ctx, Job{Action: "a", Cron: "@daily"})
	must(t, err)
	short, cancel := context.WithCancel(ctx)
	b := batch.Batch{Mode: batch.Ordered}
	must(t, Mutate(r.In(&b), add(1000)))
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
	if got(t, s) != 1 || w.countIn() != 1 || len(list(t, r.Schedule())) != 1 {
		t.Fatalf("count %d, stored %d, events %v", got(t, s), w.countIn(), list(t, r.Schedule()))
	}
	if events := w.stored().Events; len(events) != 1 || events[0].Cron != "@daily" {
		t.Errorf("stored %+v", events)
	}
	must(t, s.Mutate(ctx, add(1)))
	w.healthy()
}

// TestStageMeanwhile: changes that are staged while another commit is under way see what
// that has made, and readers see nothing of it before.
func TestStageMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := state(t, w.open(nil))
		pause := w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- s.Mutate(ctx, add(1)) }()
		<-pause.Reached()
		short, cancel := context.WithCancel(ctx)
		go func() { second <- s.Mutate(short, add(100)) }()
		synctest.Wait()
		cancel()
		wantErr(t, <-second, context.Canceled)
		go func() { second <- s.Mutate(ctx, func(c *count) error { c.Count *= 10; return nil }) }()
		synctest.Wait()
		if got(t, s) != 0 {
			t.Errorf("count %d before the commit", got(t, s))
		}
		pause.Release()
		must(t, <-first)
		must(t, <-second)
		if got(t, s) != 10 {
			t.Errorf("count %d", got(t, s))
		}
	})
}
