package persist

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
			must(t, r.Save(ctx, &SaveOptions{Immediate: true}))
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

// TestStateIsACopy: nothing that goes in or out is shared.
func TestStateIsACopy(t *testing.T) {
	type list struct{ Items []int }
	s, err := OpenState(ctx, newWorld(t).open(nil), &StateOptions[list]{})
	must(t, err)
	mine := list{[]int{1, 2}}
	must(t, s.Set(ctx, mine))
	mine.Items[0] = 100
	a, err := s.Get()
	must(t, err)
	a.Items[0] = 200
	var kept *list
	must(t, s.Mutate(ctx, func(l *list) error { kept = l; l.Items[1] = 3; return nil }))
	kept.Items[0] = 300
	b, err := s.Get()
	must(t, err)
	if b.Items[0] != 1 || b.Items[1] != 3 {
		t.Errorf("got %v", b.Items)
	}
}

// TestView: views of one state are one value, and don't change.
func TestView(t *testing.T) {
	s := state(t, newWorld(t).open(nil))
	a, err := s.View()
	must(t, err)
	if b, err := s.View(); err != nil || a != b {
		t.Errorf("another view of the same state, %v", err)
	}
	must(t, s.Mutate(ctx, add(1)))
	c, err := s.View()
	must(t, err)
	if a.Count != 0 || c.Count != 1 {
		t.Errorf("%d and %d", a.Count, c.Count)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = s.View() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestMutateRefuses: what can't be stored changes nothing, and says why.
func TestMutateRefuses(t *testing.T) {
	type loose struct{ V any }
	r := newWorld(t).open(nil)
	s, err := OpenState[loose](ctx, r, nil)
	must(t, err)
	must(t, s.Set(ctx, loose{"fine"}))
	must(t, r.Save(ctx, &SaveOptions{Immediate: true}))
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		v    any
		err  error
		want error
	}{
		"NaN":       {v: []any{1, math.NaN()}, want: cbor.ErrUnsupported},
		"a channel": {v: make(chan int), want: cbor.ErrUnsupported},
		"its own":   {v: 1, err: boom, want: boom},
		"too large": {v: strings.Repeat("x", 128<<10), want: ErrTooLarge},
		"one byte":  {v: strings.Repeat("x", 128<<10-2-1-1-3-3-2-5-1+1), want: ErrTooLarge},
	} {
		err := s.Mutate(ctx, func(l *loose) error { l.V = c.v; return c.err })
		wantErr(t, err, c.want)
		if v, err := s.Get(); err != nil || v.V != "fine" || !r.Saved() {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
	var path *cbor.ValueError
	if err := s.Set(ctx, loose{[]any{1, math.NaN()}}); !errors.As(err, &path) || path.Path != "V[1]" {
		t.Errorf("%v, path %+v", err, path)
	}
	must(t, s.Set(ctx, loose{strings.Repeat("x", 128<<10-2-1-1-3-3-2-5-1)})) // the record is full to the byte
	if used, limit := r.Size(); used != limit {
		t.Errorf("%d of %d bytes", used, limit)
	}
	must(t, r.Save(ctx, &SaveOptions{Immediate: true}))
}

// TestMutateNothing: a change that changes nothing is none.
func TestMutateNothing(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	told := 0
	s, err := OpenState(ctx, r, &StateOptions[count]{OnChange: func(context.Context, count) error { told++; return nil }})
	must(t, err)
	w.eng.Reset()
	must(t, s.Mutate(ctx, add(0)))
	must(t, s.Set(ctx, count{}))
	if !r.Saved() || told != 0 {
		t.Errorf("saved %v, told %d times", r.Saved(), told)
	}
	must(t, r.Close(ctx))
	if n := w.eng.Counts(); n.Commits != 0 {
		t.Errorf("%d commits", n.Commits)
	}
}

// TestMutateTogether: no change is lost between goroutines.
func TestMutateTogether(t *testing.T) {
	w := newWorld(t)
	r := w.open(&Options{SaveInterval: -1})
	s := state(t, r)
	const workers, each = 8, 50
	done := make(chan error, workers)
	for range workers {
		go func() {
			for i := range each {
				err := s.Mutate(ctx, add(1))
				if i%10 == 0 && err == nil {
					var b batch.Batch
					s.StageMutate(&b, add(1))
					err = w.actor.Commit(ctx, &b)
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range workers {
		must(t, <-done)
	}
	const want = workers * (each + each/10)
	if must(t, r.Close(ctx)); w.countIn() != want {
		t.Errorf("stored %d, want %d", w.countIn(), want)
	}
}

// TestWarning: a record near its limit is told of once.
func TestWarning(t *testing.T) {
	w := newWorld(t)
	w.limits.ValueSize = 1000
	s := state(t, w.open(nil))
	for i, c := range []struct{ pad, warnings int }{{600, 0}, {760, 1}, {800, 1}, {100, 1}, {760, 2}} {
		must(t, s.Set(ctx, count{Pad: strings.Repeat("x", c.pad)}))
		if n := w.log.lines("near its limit"); n != c.warnings {
			t.Errorf("%d: %d warnings, want %d", i, n, c.warnings)
		}
	}
}

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
		b.Put(actorstore.UserKey([]byte("k")), []byte("v"))
		must(t, s.Mutate(ctx, add(10)))
		if <-told; got(t, s) != 10 {
			t.Errorf("count %d before the commit", got(t, s))
		}
		synctest.Wait() // until that is saved
		w.eng.Reset()
		must(t, w.actor.Commit(ctx, &b))
		if n := w.eng.Counts(); n.Commits != 1 || n.Gets+n.Scans != 1 { // of the user key, which nobody knows
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

// TestJSON keeps input and state as JSON.
func TestJSON(t *testing.T) {
	w := newWorld(t)
	o := &Options{Codec: JSON{}, Input: map[string]int{"seed": 1}}
	r := w.open(o)
	for i := range 2 {
		s := state(t, r)
		must(t, s.Mutate(ctx, add(1)))
		must(t, r.Close(ctx))
		if c := w.stored(); string(c.Input) != `{"seed":1}` || string(c.State) != `{"count":`+string(rune('1'+i))+`}` {
			t.Errorf("stored %s and %s", c.Input, c.State)
		}
		r = w.open(o)
	}
	must(t, w.actor.Put(ctx, recordKey(), unhex(t, "0400000101f700"))) // initialised, and nothing in it
	if s := state(t, w.open(o)); got(t, s) != 0 {
		t.Errorf("count %d", got(t, s))
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
			must(t, s.Mutate(ctx, add(1)))
			must(t, r.Save(ctx, &SaveOptions{Immediate: true}))
			must(t, s.Mutate(ctx, add(1)))
			want := lose(w)
			wantErr(t, r.Save(ctx, &SaveOptions{Immediate: true}), want)
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
			wantErr(t, r.Close(ctx), want) // there was something to save
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
