package persist

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestOpenMissing: an actor without a record doesn't start.
func TestOpenMissing(t *testing.T) {
	w := newWorld(t)
	_, err := Open(ctx, w.enter(), nil)
	wantErr(t, err, ErrNoRecord)
	snap, err := w.actor.Snapshot(ctx)
	must(t, err)
	defer snap.Close()
	_, err = Look(ctx, snap)
	wantErr(t, err, ErrNoRecord)
	if c := w.eng.Counts(); c.Durable != 0 {
		t.Errorf("a failed start made %d durable commits", c.Durable)
	}
	r, err := Open(ctx, w.actor, &Options{Create: true}) // the namespace was given back
	must(t, err)
	must(t, r.Close(ctx))
}

// TestBootstrap stores the golden bytes of a new actor, with the mark, in one commit.
func TestBootstrap(t *testing.T) {
	for i, c := range []struct {
		input []byte
		hex   string
	}{
		{nil, "0400000101f700"},
		{encoded(cbor.Object{{Name: "seed", Value: 1}}), "04000109b900016473656564010101f700"},
	} {
		w := newWorld(t)
		w.enter()
		w.eng.Reset()
		r, err := Open(ctx, w.actor, &Options{Create: true, CreateLate: i > 0, Input: c.input})
		must(t, err)
		if n := w.eng.Counts(); n.Commits != 1 || n.Durable != 1 {
			t.Errorf("%d commits, %d durable", n.Commits, n.Durable)
		}
		raw, err := w.actor.Get(ctx, recordKey(), nil)
		must(t, err)
		if string(raw) != string(unhex(t, c.hex)) {
			t.Errorf("stored %x, want %s", raw, c.hex)
		}
		w.eng.Reset()
		var b batch.Batch
		must(t, r.In(&b).SetRawState(undefined))
		must(t, w.actor.Commit(ctx, &b))
		if n := w.eng.Counts(); n.Commits != 0 {
			t.Errorf("%d commits for the state that it has", n.Commits)
		}
		must(t, r.Close(ctx))
	}
}

// TestInputTooLarge: an input that can't be stored is refused before anything is
// written, and not when the actor saves for the first time.
func TestInputTooLarge(t *testing.T) {
	w := newWorld(t)
	w.enter()
	fits := strings.Repeat("x", 128<<10-2-1-3-5-1-2-1) // version, optional, two lengths, flag, state, events
	_, err := Open(ctx, w.actor, &Options{Create: true, Input: encoded(fits + "x")})
	var size *SizeError
	if !errors.As(err, &size) || size.What != "input" || size.Size != 128<<10+1 || size.Limit != 128<<10 {
		t.Fatalf("got %v", err)
	}
	if _, err := w.actor.Get(ctx, recordKey(), nil); !errors.Is(err, actorstore.ErrNotFound) {
		t.Errorf("something is stored: %v", err)
	}
	r, err := Open(ctx, w.actor, &Options{Create: true, Input: encoded(fits), Env: part.Env{Logger: w.log.logger()}})
	must(t, err)
	if string(r.RawInput()) != string(encoded(fits)) {
		t.Error("another input")
	}
	must(t, r.Close(ctx))
}

// TestInput reads the input, whenever.
func TestInput(t *testing.T) {
	w := newWorld(t)
	want := encoded(map[string]int{"seed": 7})
	mine := bytes.Clone(want)
	r := w.open(&Options{Input: mine})
	clear(mine)
	for range 2 {
		if !bytes.Equal(r.RawInput(), want) || !bytes.Equal(w.stored().Input, want) {
			t.Errorf("input %x, stored %x", r.RawInput(), w.stored().Input)
		}
		r = w.open(&Options{Input: encoded("of a record that is there already")})
	}
	if in := newWorld(t).open(nil).RawInput(); in != nil {
		t.Errorf("input %x", in)
	}
	w = newWorld(t)
	if _, err := w.tryOpen(&Options{Input: []byte{0x61}}); err == nil {
		t.Error("half a value is an input")
	}
	w.absent()
}

// TestMark: a record that another program has made, and not come to initialise, stays as it
// is when it is opened, and gets the mark with the first change that lands: of the schedule,
// of the state, or of a state that is set to what it is.
func TestMark(t *testing.T) {
	for name, change := range map[string]func(tx *Tx) error{
		"event":      func(tx *Tx) error { _, err := tx.Add(Job{ID: "e", Action: "a"}); return err },
		"state":      func(tx *Tx) error { return tx.SetRawState(encoded("s")) },
		"same state": func(tx *Tx) error { return tx.SetRawState(undefined) },
	} {
		for _, v := range vectors(t) {
			if v.Input.HasInitialized {
				continue
			}
			w := newWorld(t)
			raw := unhex(t, v.Hex)
			must(t, w.enter().Put(ctx, recordKey(), raw))
			r := w.open(nil)
			if now, err := w.actor.Get(ctx, recordKey(), nil); err != nil || !bytes.Equal(now, raw) {
				t.Errorf("%s: opened, it is %x, %v", v.Name, now, err)
			}
			make := func() error {
				var b batch.Batch
				must(t, change(r.In(&b)))
				return w.actor.Commit(ctx, &b)
			}
			w.refuse(1)
			wantErr(t, make(), batch.ErrTooLarge)
			if w.stored().Initialized {
				t.Errorf("%s, %s: the mark is there, and the commit failed", v.Name, name)
			}
			for i := range 2 {
				w.eng.Reset()
				must(t, make())
				if n := w.eng.Counts().Commits; !w.stored().Initialized || n > 1 || i == 0 && n == 0 || i > 0 && n > 0 && name != "event" {
					t.Errorf("%s, %s: %d commits, stored %+v", v.Name, name, n, w.stored())
				}
			}
			if got, want := w.stored(), v.record(t); got.Version != version || !bytes.Equal(got.Input, want.input) ||
				name != "state" && !bytes.Equal(got.State, want.state) || len(got.Events) < len(want.events) {
				t.Errorf("%s, %s: stored %+v", v.Name, name, got)
			}
		}
	}
}

// TestOldVersions: what old records hold is there, and the next save writes the newest.
func TestOldVersions(t *testing.T) {
	for _, v := range vectors(t) {
		w := newWorld(t)
		raw := unhex(t, v.Hex)
		must(t, w.enter().Put(ctx, recordKey(), raw))
		r := w.open(nil)
		want := v.record(t)
		events, err := r.Schedule().List()
		must(t, err)
		if w.stored().Initialized != want.init || string(r.state) != string(want.state) || len(events) != len(want.events) {
			t.Errorf("%s: %+v", v.Name, r)
		}
		w.eng.Reset()
		must(t, counter{r}.mutate(ctx, add(1)))
		if c := w.stored(); c.Version != version || len(c.Events) != len(want.events) || !c.Initialized {
			t.Errorf("%s: saved %+v", v.Name, c)
		}
		if n := w.eng.Counts(); n.Commits != 1 {
			t.Errorf("%s: %d commits", v.Name, n.Commits)
		}
	}
}

// TestDamaged: a record that can't be read is an error, and stays as it is.
func TestDamaged(t *testing.T) {
	for raw, want := range map[string]error{
		"\x04\x00\x00\x02": actorstore.ErrCorrupt,
		"":                 actorstore.ErrCorrupt,
		"\x05\x00":         actorstore.ErrNewerFormat,
	} {
		w := newWorld(t)
		must(t, w.enter().Put(ctx, recordKey(), []byte(raw)))
		_, err := w.tryOpen(nil)
		wantErr(t, err, want)
		if b, err := w.actor.Get(ctx, recordKey(), nil); err != nil || string(b) != raw {
			t.Errorf("%x became %x, %v", raw, b, err)
		}
	}
}

// TestGone: with an actor that refuses everything, a Record does too.
func TestGone(t *testing.T) {
	for name, lose := range map[string]func(w *world) error{
		"fenced": func(w *world) error {
			s, err := actorstore.Open(ctx, w.eng, nil)
			must(t, err)
			a, err := s.Named(ctx, "lobby", nil)
			must(t, err)
			t.Cleanup(func() { must(t, errors.Join(a.Close(), s.Close())) })
			return actorstore.ErrFenced
		},
		"poisoned": func(w *world) error {
			w.eng.Fail(faultkv.Rule{Point: faultkv.AfterApply, Times: 1})
			return actorstore.ErrPoisoned
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.open(nil)
			s := counter{r}
			want := lose(w)
			wantErr(t, s.mutate(ctx, add(1)), want)
			_, err := s.get()
			wantErr(t, err, want)
			_, err = r.Schedule().List()
			wantErr(t, err, want)
			wantErr(t, s.set(ctx, count{Count: 9}), want)
			_, err = addAfter(r.Schedule(), 0, "a")
			wantErr(t, err, want)
			_, err = r.Schedule().Cancel(ctx, "a")
			wantErr(t, err, want)
			var b batch.Batch
			wantErr(t, r.In(&b).Cancel("a"), want)
			must(t, r.Close(ctx))
			wantErr(t, s.set(ctx, count{}), ErrClosed)
		})
	}
}

// TestTwo: a second Record of the same actor would not see the changes of the first.
func TestTwo(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	_, err := Open(ctx, w.actor, nil)
	wantErr(t, err, actorstore.ErrKept)
	must(t, r.Close(ctx))
	again, err := Open(ctx, w.actor, nil)
	must(t, err)
	must(t, again.Close(ctx))
}
