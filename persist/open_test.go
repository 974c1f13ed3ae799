package persist

import (
	"context"
	"errors"
	"strings"
	"testing"

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

// TestBootstrap stores the golden bytes of a new actor, in one commit.
func TestBootstrap(t *testing.T) {
	for _, c := range []struct {
		input any
		hex   string
	}{
		{nil, "0400000001f700"},
		{cbor.Object{{Name: "seed", Value: 1}}, "04000109b900016473656564010001f700"},
	} {
		w := newWorld(t)
		w.enter()
		w.eng.Reset()
		r, err := Open(ctx, w.actor, &Options{Create: true, Input: c.input})
		must(t, err)
		if n := w.eng.Counts(); n.Commits != 1 || n.Durable != 1 {
			t.Errorf("%d commits, %d durable", n.Commits, n.Durable)
		}
		raw, err := w.actor.Get(ctx, recordKey(), nil)
		must(t, err)
		if string(raw) != string(unhex(t, c.hex)) {
			t.Errorf("stored %x, want %s", raw, c.hex)
		}
		if r.Initialized() {
			t.Error("initialised before its first state")
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
	_, err := Open(ctx, w.actor, &Options{Create: true, Input: fits + "x"})
	var size *SizeError
	if !errors.As(err, &size) || size.What != "input" || size.Size != 128<<10+1 || size.Limit != 128<<10 {
		t.Fatalf("got %v", err)
	}
	if _, err := w.actor.Get(ctx, recordKey(), nil); !errors.Is(err, actorstore.ErrNotFound) {
		t.Errorf("something is stored: %v", err)
	}
	r, err := Open(ctx, w.actor, &Options{Create: true, Input: fits, Logger: w.log.logger()})
	must(t, err)
	var in string
	if must(t, r.Input(&in)); in != fits {
		t.Error("another input")
	}
	must(t, r.Close(ctx))
}

// TestInput reads the input, whenever.
func TestInput(t *testing.T) {
	w := newWorld(t)
	r := w.open(&Options{Input: map[string]int{"seed": 7}})
	for range 2 {
		var in struct{ Seed int }
		if must(t, r.Input(&in)); in.Seed != 7 || r.RawInput() == nil {
			t.Errorf("input %+v", in)
		}
		wantCBOR := new(chan int)
		if r.Input(wantCBOR) == nil {
			t.Error("decoded into a channel")
		}
		r = w.open(&Options{Input: "of a record that is there already"})
	}
	r = newWorld(t).open(nil)
	wantErr(t, r.Input(new(int)), ErrNoInput)
}

// TestInitialize: the first state and the mark are stored before OpenState returns, and
// made once.
func TestInitialize(t *testing.T) {
	w := newWorld(t)
	r := w.open(&Options{Input: 5})
	calls := 0
	initial := func(_ context.Context, r *Record) (c count, err error) {
		calls++
		if w.stored().Initialized {
			t.Error("initialised before there is a state")
		}
		err = r.Input(&c.Count)
		return c, err
	}
	boom := errors.New("boom")
	_, err := OpenState(ctx, r, &StateOptions[count]{Initial: func(context.Context, *Record) (count, error) { return count{}, boom }})
	wantErr(t, err, boom)
	_, err = OpenState(ctx, r, &StateOptions[func()]{})
	wantErr(t, err, cbor.ErrUnsupported)
	for range 2 {
		w.eng.Reset()
		s, err := OpenState(ctx, r, &StateOptions[count]{Initial: initial})
		must(t, err)
		if got(t, s) != 5 || !r.Initialized() || !w.stored().Initialized || w.countIn() != 5 || calls != 1 {
			t.Fatalf("count %d, initialised %v, stored %+v, %d calls", got(t, s), r.Initialized(), w.stored(), calls)
		}
	}
	if s := state(t, w.open(nil)); got(t, s) != 5 {
		t.Errorf("count %d after a restart", got(t, s))
	}
	// A state of another type is an error, and no reason to begin anew.
	_, err = OpenState[[]string](ctx, w.rec, nil)
	if err == nil || w.countIn() != 5 {
		t.Errorf("opened as another type: %v", err)
	}
}

// TestInitializeFails: a first state that isn't stored isn't there.
func TestInitializeFails(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	w.refuse(1)
	_, err := OpenState[count](ctx, r, nil)
	wantErr(t, err, batch.ErrTooLarge)
	if r.Initialized() {
		t.Error("initialised all the same")
	}
	if state(t, r); !r.Initialized() {
		t.Error("not initialised")
	}
	r = newWorld(t).open(nil)
	_, err = OpenState(ctx, r, &StateOptions[string]{Initial: func(context.Context, *Record) (string, error) {
		return strings.Repeat("x", 128<<10), nil
	}})
	wantErr(t, err, ErrTooLarge)
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
		if r.Initialized() != want.init || string(r.state) != string(want.state) || len(events) != len(want.events) {
			t.Errorf("%s: %+v", v.Name, r)
		}
		w.eng.Reset()
		if !want.init {
			state(t, r)
		} else {
			must(t, state(t, r).Mutate(ctx, add(1)))
		}
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
			s := state(t, r)
			want := lose(w)
			wantErr(t, s.Mutate(ctx, add(1)), want)
			_, err := s.Get()
			wantErr(t, err, want)
			_, err = s.View()
			wantErr(t, err, want)
			_, err = r.Schedule().List()
			wantErr(t, err, want)
			wantErr(t, s.Set(ctx, count{Count: 9}), want)
			_, err = r.Schedule().After(ctx, 0, "a")
			wantErr(t, err, want)
			_, err = r.Schedule().Cancel(ctx, "a")
			wantErr(t, err, want)
			var b batch.Batch
			wantErr(t, r.In(&b).Clear(), want)
			must(t, r.Close(ctx))
			wantErr(t, s.Set(ctx, count{}), ErrClosed)
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
