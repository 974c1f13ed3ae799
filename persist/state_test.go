package persist

import (
	"bytes"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
)

// TestStateIsACopy: the bytes that are set may be used again, and those that were read stay
// as they are.
func TestStateIsACopy(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	var b batch.Batch
	mine := encoded("one")
	must(t, r.In(&b).SetRawState(mine))
	clear(mine)
	must(t, w.actor.Commit(ctx, &b))
	first, err := r.RawState()
	must(t, err)
	must(t, counter{r}.set(ctx, count{Count: 2}))
	if want := encoded("one"); !bytes.Equal(first, want) {
		t.Errorf("the state was %x, want %x", first, want)
	}
	if second, err := r.RawState(); err != nil || !bytes.Equal(second, encoded(count{Count: 2})) {
		t.Errorf("the state is %x, %v", second, err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = r.RawState() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestStateRefuses: what isn't one value, and what is too large, changes nothing.
func TestStateRefuses(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	text := func(n int) []byte { return encoded(strings.Repeat("x", n)) }
	set := func(value []byte) error {
		var b batch.Batch
		defer b.Abort(nil)
		if err := r.In(&b).SetRawState(value); err != nil {
			return err
		}
		return w.actor.Commit(ctx, &b)
	}
	must(t, set(encoded("fine")))
	const most = 128<<10 - 2 - 1 - 1 - 3 - 5 - 1 // version, optional, flag, two lengths, events
	for name, value := range map[string][]byte{
		"half a value": {0x61},
		"two values":   {1, 2},
		"no value":     {0xff},
		"a bigint":     append([]byte{0xc2}, encoded(make([]byte, 2000))...),
	} {
		var b batch.Batch
		if r.In(&b).SetRawState(value) == nil {
			t.Errorf("%s is a state", name)
		}
	}
	for _, n := range []int{128 << 10, most + 1} {
		wantErr(t, set(text(n)), ErrTooLarge)
	}
	if raw, err := r.RawState(); err != nil || string(raw) != string(encoded("fine")) || string(w.stored().State) != string(raw) {
		t.Errorf("the state is %x, %v", raw, err)
	}
	must(t, set(text(most)))
	if raw, err := w.actor.Get(ctx, recordKey(), nil); err != nil || len(raw) != 128<<10 { // it is full
		t.Errorf("stored %d bytes, %v", len(raw), err)
	}
	must(t, set(nil)) // as if it had never been set
	if raw, err := r.RawState(); err != nil || string(raw) != string(undefined) {
		t.Errorf("the state is %x, %v", raw, err)
	}
}

// TestSameState: a change that changes nothing isn't written.
func TestSameState(t *testing.T) {
	w := newWorld(t)
	s := counter{w.open(nil)}
	must(t, s.set(ctx, count{}))
	w.eng.Reset()
	must(t, s.mutate(ctx, add(0)))
	must(t, s.set(ctx, count{}))
	if n := w.eng.Counts(); n.Commits != 0 {
		t.Errorf("%d commits", n.Commits)
	}
}

// TestChangesTogether: no change is lost between goroutines whose commits read the state
// and replace it.
func TestChangesTogether(t *testing.T) {
	w := newWorld(t)
	r := w.open(nil)
	s := counter{r}
	const workers, each = 8, 50
	done := make(chan error, workers)
	for range workers {
		go func() {
			for i := range each {
				err := s.mutate(ctx, add(1))
				if i%10 == 0 && err == nil {
					var b batch.Batch
					later(r, &b, add(1))
					err = w.actor.Apply(ctx, &b)
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
	s := counter{w.open(nil)}
	for i, c := range []struct{ pad, warnings int }{{600, 0}, {760, 1}, {800, 1}, {100, 1}, {760, 2}} {
		must(t, s.set(ctx, count{Pad: strings.Repeat("x", c.pad)}))
		if n := w.log.lines("near its limit"); n != c.warnings {
			t.Errorf("%d: %d warnings, want %d", i, n, c.warnings)
		}
	}
}
