package persist

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// lateWorld is a new actor whose record is made by the first commit that changes it.
func lateWorld(t *testing.T, e kv.Engine) (*world, *Record) {
	w := newWorldOn(t, e)
	w.enter()
	w.eng.Reset()
	return w, w.openLate(t)
}

// openLate opens the record of the actor that is open.
func (w *world) openLate(t *testing.T) *Record {
	t.Helper()
	o := &Options{CreateLate: true, Input: encoded(cbor.Object{{Name: "seed", Value: 1}}), Env: part.Env{Logger: w.log.logger()}}
	r, err := Open(ctx, w.actor, o)
	must(t, err)
	w.rec = r
	return r
}

// absent checks that nothing of the record is stored.
func (w *world) absent() {
	w.t.Helper()
	if raw, err := w.actor.Get(ctx, recordKey(), nil); !errors.Is(err, actorstore.ErrNotFound) {
		w.t.Errorf("stored %x, %v", raw, err)
	}
}

// TestCreateLate: opening writes nothing, and the first change stores the golden bytes of
// the record, with its input, in the commit that makes the change. It reads nothing.
func TestCreateLate(t *testing.T) {
	w, r := lateWorld(t, newDisk())
	raw, err := r.RawState()
	must(t, err)
	if string(raw) != string(undefined) || len(r.RawInput()) != 9 || len(list(t, r.Schedule())) != 0 {
		t.Errorf("state %x, input %x", raw, r.RawInput())
	}
	var none batch.Batch
	must(t, r.In(&none).Cancel("none")) // which changes nothing
	must(t, w.actor.Commit(ctx, &none))
	must(t, r.Close(ctx))
	if n := w.eng.Counts(); n.Durable != 0 {
		t.Errorf("%d durable commits", n.Durable)
	}
	w.absent()

	r = w.openLate(t)
	var b batch.Batch
	must(t, r.In(&b).SetRawState(encoded("s")))
	b.PutPrior(actorstore.UserKey([]byte("k")), nil, batch.Absent)
	w.eng.Reset()
	must(t, w.actor.Commit(ctx, &b))
	if n := w.eng.Counts(); n.Commits != 1 || n.Gets+n.Scans != 0 {
		t.Errorf("%d commits, %d reads", n.Commits, n.Gets+n.Scans)
	}
	stored, err := w.actor.Get(ctx, recordKey(), nil)
	must(t, err)
	if want := unhex(t, "04000109b90001647365656401"+"01"+"026173"+"00"); string(stored) != string(want) {
		t.Errorf("stored %x, want %x", stored, want)
	}
	must(t, r.Close(ctx))
	w.healthy()

	r = w.open(&Options{CreateLate: true, Input: encoded("of a record that is there already")})
	if raw, err = r.RawState(); err != nil || string(raw) != "\x61s" || len(r.RawInput()) != 9 {
		t.Errorf("state %x, input %x, %v", raw, r.RawInput(), err)
	}
}

// TestCreateLateFails: after a commit that failed, or a crash, the record is missing,
// and the next commit makes it.
func TestCreateLateFails(t *testing.T) {
	for name, fail := range map[string]func(w *world, r *Record, b *batch.Batch){
		"given up": func(w *world, r *Record, b *batch.Batch) { b.Abort(nil) },
		"refused": func(w *world, r *Record, b *batch.Batch) {
			w.refuse(1)
			wantErr(w.t, w.actor.Commit(ctx, b), batch.ErrTooLarge)
		},
		"landed in part": func(w *world, r *Record, b *batch.Batch) {
			b.Mode = batch.Ordered
			for i := range 2 * w.actor.Limits().Entries {
				b.Put(actorstore.UserKey(fmt.Append(nil, i)), nil)
			}
			w.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: 1, Times: 1, Err: kv.ErrTooLarge})
			var part *batch.OrderedError
			if err := w.actor.Commit(ctx, b); !errors.As(err, &part) {
				w.t.Errorf("got %v", err)
			}
		},
		"crashed before": func(w *world, r *Record, b *batch.Batch) {
			w.eng.Tear(0)
			if w.actor.Commit(ctx, b) == nil {
				w.t.Error("committed")
			}
			w.eng.Heal()
			w.enter()
			w.openLate(w.t.(*testing.T))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := lateWorld(t, newDisk())
			var b batch.Batch
			must(t, r.In(&b).SetRawState(encoded("s")))
			id, err := r.In(&b).Add(Job{Action: "a"})
			must(t, err)
			fail(w, r, &b)
			w.absent()
			r = w.rec
			if raw, err := r.RawState(); err != nil || string(raw) != string(undefined) || len(list(t, r.Schedule())) != 0 {
				t.Errorf("state %x, %v, events %v, with %s", raw, err, list(t, r.Schedule()), id)
			}
			if must(t, (counter{r}).mutate(ctx, add(1))); got(t, r) != 1 || !w.stored().Initialized || w.stored().Input == nil {
				t.Errorf("stored %+v", w.stored())
			}
			must(t, r.Close(ctx))
			w.healthy()
		})
	}
}

// TestCreateLateCrash: a record that was applied and is not on stable storage goes with
// the machine, and one that is stays.
func TestCreateLateCrash(t *testing.T) {
	for _, synced := range []bool{false, true} {
		d := newDisk()
		w, r := lateWorld(t, d)
		must(t, w.actor.Put(ctx, actorstore.UserKey([]byte("k")), nil)) // the actor is there
		var b batch.Batch
		must(t, r.In(&b).SetRawState(encoded(count{Count: 3})))
		must(t, w.actor.Apply(ctx, &b))
		if synced {
			must(t, w.actor.Sync(ctx))
		}
		w.leave()
		w.eng = faultkv.New(d.crash(t, 1000))
		w.enter()
		if r = w.openLate(t); !synced {
			w.absent()
		} else if w.countIn() != 3 {
			t.Errorf("stored %+v", w.stored())
		}
		must(t, r.Close(ctx))
		w.healthy()
	}
}

// TestCreateLateTooLarge: an input that can't be stored is refused by Open.
func TestCreateLateTooLarge(t *testing.T) {
	w := newWorld(t)
	_, err := Open(ctx, w.enter(), &Options{CreateLate: true, Input: encoded(make([]byte, 128<<10))})
	var size *SizeError
	if !errors.As(err, &size) || size.What != "input" {
		t.Errorf("got %v", err)
	}
}
