package persist

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

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
		if v, err := s.Get(); err != nil || v.V != "fine" {
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
	if n := w.eng.Counts(); n.Commits != 0 || told != 0 {
		t.Errorf("%d commits, told %d times", n.Commits, told)
	}
}

// TestMutateTogether: no change is lost between goroutines.
func TestMutateTogether(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	s := state(t, r)
	const workers, each = 8, 50
	done := make(chan error, workers)
	for range workers {
		go func() {
			for i := range each {
				err := s.Mutate(ctx, add(1))
				if i%10 == 0 && err == nil {
					var b batch.Batch
					if err = Mutate(r.In(&b), add(1)); err == nil {
						err = w.actor.Apply(ctx, &b)
					}
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
