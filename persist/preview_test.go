package persist

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
)

var errNo = errors.New("no")

// seen returns the ids of the events that a Tx shows.
func seen(t *testing.T, tx *Tx) (ids []string) {
	t.Helper()
	all, err := tx.List()
	must(t, err)
	for _, e := range all {
		ids = append(ids, e.ID)
	}
	return ids
}

// TestPreview: a Tx shows what it has asked for, and no other Tx sees it.
func TestPreview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.open(nil)
		s := counter{r}
		must(t, s.mutate(ctx, add(1)))
		_, err := r.Schedule().Add(ctx, Job{ID: "cron", Action: "a", Cron: "@daily"})
		must(t, err)
		noted := w.notes()

		var b batch.Batch
		in := r.In(&b)
		raw, err := in.RawState()
		if must(t, err); &raw[0] != &r.state[0] {
			t.Error("a copy, and nothing was staged")
		}
		must(t, mutate(in, add(1)))
		must(t, mutate(in, func(c *count) error { c.Count *= 10; return nil }))
		c, err := decode(in.RawState())
		if must(t, err); c.Count != 20 {
			t.Errorf("count %d", c.Count)
		}
		first, err := in.Add(Job{Action: "a", At: time.Now().Add(sec)})
		must(t, err)
		second, err := in.Add(Job{ID: "x", Action: "a", At: time.Now().Add(2 * sec)})
		must(t, err)
		if got, want := seen(t, in), []string{first, second, "cron"}; !slices.Equal(got, want) {
			t.Errorf("seen %q, want %q", got, want)
		}
		_, err = in.Add(Job{ID: "x", Action: "b", At: time.Now()})
		must(t, err)
		must(t, in.Cancel("cron"))
		if got, want := seen(t, in), []string{second, first}; !slices.Equal(got, want) {
			t.Errorf("seen %q, want %q", got, want)
		}
		must(t, in.Cancel(first))
		must(t, in.Cancel(second))
		if ids := seen(t, in); len(ids) != 0 || len(list(t, r.Schedule())) != 1 || got(t, r) != 1 || w.notes() != noted {
			t.Errorf("seen %q, and others see %v, count %d, %d notes", ids, list(t, r.Schedule()), got(t, r), w.notes())
		}
		// What is to be removed, and was only looked at, runs when the batch is given up.
		ran := 0
		must(t, r.Schedule().Start(ctx, acts{"a": func(_ context.Context, f *Firing) error { ran++; return nil }}.lookup))
		b.Abort(nil)
		if pass(24 * time.Hour); ran != 1 {
			t.Errorf("ran %d times", ran)
		}
		_, err = in.List()
		wantErr(t, err, batch.ErrSettled)
		_, err = in.RawState()
		wantErr(t, err, batch.ErrSettled)
	})
}

// TestPreviewFails: what the commit will fail with, a preview says.
func TestPreviewFails(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	var b batch.Batch
	must(t, r.In(&b).do(func(*Tx) error { return errNo }))
	_, err := r.In(&b).RawState()
	wantErr(t, err, errNo)
	_, err = r.In(&b).List()
	wantErr(t, err, errNo)
	wantErr(t, w.actor.Commit(ctx, &b), errNo)
	var late batch.Batch
	in := r.In(&late)
	must(t, r.Close(ctx))
	_, err = in.RawState()
	wantErr(t, err, ErrClosed)
}

// TestPreviewComesTrue: after any changes that a batch stages, and whatever another one or an
// action ends meanwhile, the record becomes what was seen.
func TestPreviewComesTrue(t *testing.T) {
	for seed := range 100 {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(seed), 1))
			w := newWorld(t)
			r := w.open(&Options{CreateLate: seed%2 == 0})
			var firing *Firing
			must(t, r.Schedule().Start(ctx, acts{"now": func(_ context.Context, f *Firing) error {
				firing = f
				var batches [2]batch.Batch
				for range 6 {
					in := r.In(&batches[rnd.IntN(2)])
					if change(t, rnd, in, f); rnd.IntN(2) == 0 {
						seen(t, in)
					}
					if rnd.IntN(6) == 0 { // another one lands
						must(t, counter{r}.mutate(ctx, add(100)))
						must(t, r.Schedule().Retry(ctx, "2"))
					}
				}
				in := r.In(&batches[0])
				change(t, rnd, in, f)
				raw, err := in.RawState()
				must(t, err)
				events, err := in.List()
				must(t, err)
				must(t, w.actor.Commit(ctx, &batches[0]))
				after, err := r.RawState()
				must(t, err)
				if got, err := r.Schedule().List(); err != nil || string(after) != string(raw) || !reflect.DeepEqual(got, events) {
					t.Errorf("seed %d: state %x and events %+v were seen, and became %x and %+v, %v", seed, raw, events, after, got, err)
				}
				return nil
			}}.lookup))
			for _, job := range []Job{{ID: "1", Action: "b", Cron: "@daily"}, {ID: "2", Action: "b", At: time.Now().Add(time.Hour)},
				{ID: "3", Action: "now", At: time.Now().Add(sec)}} {
				_, err := r.Schedule().Add(ctx, job)
				must(t, err)
			}
			if pass(2 * sec); firing == nil {
				t.Errorf("seed %d: nothing ran", seed)
			}
		})
	}
}

// TestPreviewGoesOn: what a Tx has shown it doesn't compute again.
func TestPreviewGoesOn(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	var b batch.Batch
	in, ran := r.In(&b), 0
	for range 10 {
		must(t, in.do(func(*Tx) error { ran++; return nil }))
		seen(t, in)
		must(t, second(in.RawState()))
	}
	if ran != 10 {
		t.Errorf("10 changes were computed %d times", ran)
	}
	must(t, counter{r}.mutate(ctx, add(1))) // what they are changes of is another record now
	if seen(t, in); ran != 20 {
		t.Errorf("10 changes of another record were computed %d times", ran-10)
	}
}

// second returns the error.
func second[T any](_ T, err error) error { return err }

// change stages a random change.
func change(t *testing.T, rnd *rand.Rand, in *Tx, f *Firing) {
	id := fmt.Sprint(rnd.IntN(5))
	at := time.Now().Add(time.Duration(rnd.IntN(5)) * time.Minute)
	var err error
	switch rnd.IntN(8) {
	case 0:
		err = in.SetRawState(encoded(count{Count: rnd.IntN(10)}))
	case 1:
		err = mutate(in, add(rnd.IntN(10)))
	case 2, 3:
		_, err = in.Add(Job{ID: id, Action: "b", At: at})
	case 4:
		_, err = in.Add(Job{ID: id, Action: "b", Cron: "@daily"})
	case 5:
		_, err = in.Add(Job{Action: "b", At: at})
	case 6:
		err = in.Cancel(id)
	case 7:
		err = in.Done(f)
	}
	must(t, err)
}
