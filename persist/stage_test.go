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
			must(t, r.Save(ctx, &SaveOptions{Immediate: true}))
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
		s.StageMutate(&b, add(1))
		s.StageMutate(&b, func(c *count) error { c.Count *= 2; return nil })
		b.PutPrior(actorstore.UserKey([]byte("k")), []byte("v"), batch.Absent)
		must(t, s.Mutate(ctx, add(10)))
		if <-told; got(t, s) != 10 {
			t.Errorf("count %d before the commit", got(t, s))
		}
		synctest.Wait() // until that is saved
		w.eng.Reset()
		must(t, w.actor.Commit(ctx, &b))
		if n := w.eng.Counts(); n.Commits != 1 || n.Gets+n.Scans != 0 {
			t.Errorf("%d commits, %d reads", n.Commits, n.Gets+n.Scans)
		}
		if got(t, s) != 22 || w.countIn() != 22 || !r.Saved() || <-told != 22 {
			t.Errorf("count %d, stored %d, saved %v", got(t, s), w.countIn(), r.Saved())
		}
		var set batch.Batch
		must(t, s.StageSet(&set, count{Count: 7}))
		must(t, w.actor.Commit(ctx, &set))
		if <-told; got(t, s) != 7 {
			t.Errorf("count %d", got(t, s))
		}
	})
}

// TestStageFails: a staged change that isn't committed leaves nothing.
func TestStageFails(t *testing.T) {
	w := newWorld(t)
	r := w.open(&Options{SaveInterval: time.Hour})
	s := state(t, r)
	must(t, s.Mutate(ctx, add(1)))
	must(t, r.Save(ctx, &SaveOptions{Immediate: true}))
	must(t, s.Set(ctx, count{Count: 3}))
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		stage func(b *batch.Batch)
		want  error
	}{
		"its own error": {func(b *batch.Batch) { s.StageMutate(b, func(*count) error { return boom }) }, boom},
		"too large": {func(b *batch.Batch) {
			s.StageMutate(b, func(c *count) error { c.Pad = strings.Repeat("x", 128<<10); return nil })
		}, ErrTooLarge},
		"refused": {func(b *batch.Batch) { w.refuse(1); s.StageMutate(b, add(1)) }, batch.ErrTooLarge},
		"somebody else's": {func(b *batch.Batch) {
			s.StageMutate(b, add(1))
			b.Late(func(*batch.Batch) error { return boom })
		}, boom},
		"after the record was staged": {func(b *batch.Batch) {
			s.StageMutate(b, add(1))
			b.Late(func(b *batch.Batch) error {
				b.Late(func(b *batch.Batch) error { s.StageMutate(b, func(*count) error { return boom }); return nil })
				return nil
			})
		}, boom},
	} {
		var b batch.Batch
		c.stage(&b)
		wantErr(t, w.actor.Commit(ctx, &b), c.want)
		if got(t, s) != 3 || r.Saved() || r.flight != nil {
			t.Errorf("%s: count %d, saved %v", name, got(t, s), r.Saved())
		}
	}
	// A batch that failed may be joined to another one.
	var inner, outer, second batch.Batch
	s.StageMutate(&inner, add(1))
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
	s.StageMutate(&late, add(1))
	wantErr(t, w.actor.Commit(ctx, &late), ErrClosed)
}

// TestFrozen: while a commit brings a state, others wait for it, or for their context.
func TestFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := state(t, w.open(nil))
		pause := w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		staged, changed := make(chan error, 1), make(chan error, 1)
		go func() {
			var b batch.Batch
			s.StageMutate(&b, add(1))
			staged <- w.actor.Commit(ctx, &b)
		}()
		<-pause.Reached()
		short, cancel := context.WithCancel(ctx)
		go func() { changed <- s.Mutate(short, add(100)) }()
		synctest.Wait()
		cancel()
		wantErr(t, <-changed, context.Canceled)
		go func() { changed <- s.Mutate(ctx, func(c *count) error { c.Count *= 10; return nil }) }()
		synctest.Wait()
		if got(t, s) != 0 {
			t.Errorf("count %d before the commit", got(t, s))
		}
		pause.Release()
		must(t, <-staged)
		must(t, <-changed)
		if got(t, s) != 10 {
			t.Errorf("count %d", got(t, s))
		}
	})
}
