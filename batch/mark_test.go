package batch_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/drain"
)

// keysOf seals b and returns the keys of its writes in order.
func keysOf(t *testing.T, b *batch.Batch) (keys []string) {
	t.Helper()
	if err := b.Seal(); err != nil {
		t.Fatal(err)
	}
	for _, ops := range [][]batch.Op{b.Ops(), b.Final().Ops()} {
		for _, op := range ops {
			keys = append(keys, string(op.Key))
		}
	}
	return keys
}

// TestMark: a batch that is marked and refused is as it was, is committed again with other writes, and has
// its own in the end.
func TestMark(t *testing.T) {
	var log []string
	var b, spare batch.Batch
	b.Mode, b.OverQuota = batch.Ordered, true
	b.Put([]byte("b"), []byte("1"))
	b.Final().Put([]byte("bf"), []byte("2"))
	b.WakeBy(time.UnixMilli(9))
	own, made := &party{"own", &log}, &party{"late", &log}
	b.Enlist(own, own)
	b.Late(func(b *batch.Batch) error {
		b.Put([]byte("late"), nil)
		b.Late(func(b *batch.Batch) error { b.Put([]byte("later"), nil); return nil })
		b.Enlist(made, made)
		b.Enlist(own, own)
		b.WakeBy(time.UnixMilli(1))
		return nil
	})
	same := func(when string) {
		t.Helper()
		ops, final := b.Ops(), b.Final().Ops()
		if len(ops) != 1 || string(ops[0].Key) != "b" || len(final) != 1 || string(final[0].Key) != "bf" ||
			b.Mode != batch.Ordered || !b.OverQuota || b.WakeTime() != 9 {
			t.Errorf("%s: %v, %v, mode %v, over quota %v, wakes at %d", when, ops, final, b.Mode, b.OverQuota, b.WakeTime())
		}
	}
	for _, end := range []func(){
		func() { b.Rewind(errBoom) },
		func() { b.Settle(errBoom) },
		func() { b.Settle(nil) },
	} {
		b.Mark(&spare)
		if b.Mode != batch.Atomic || b.OverQuota || b.WakeTime() != 9 {
			t.Errorf("marked: mode %v, over quota %v, wakes at %d", b.Mode, b.OverQuota, b.WakeTime())
		}
		b.Put([]byte("page"), nil)
		b.Final().Put([]byte("size"), nil)
		want := []string{"b", "page", "late", "later", "bf", "size"}
		if got := keysOf(t, &b); !slices.Equal(got, want) || b.WakeTime() != 1 {
			t.Errorf("got %q, want %q; wakes at %d", got, want, b.WakeTime())
		}
		end()
		same("ended")
	}
	want := []string{"own late", "late late", "own late", "late failed", "own late", "late late", "own late", "late failed",
		"own late", "late late", "own late", "own landed", "late landed"}
	if !slices.Equal(log, want) || !b.Settled() {
		t.Errorf("got %q, want %q; settled %v", log, want, b.Settled())
	}
}

// TestMarkSeals: an error of Late is the commit's, and a batch that is taken back may be sealed again.
func TestMarkSeals(t *testing.T) {
	var b, spare batch.Batch
	fail := errBoom
	b.Late(func(*batch.Batch) error { return fail })
	b.Mark(&spare)
	if err := b.Seal(); err != errBoom {
		t.Errorf("got %v, want %v", err, errBoom)
	}
	b.Settle(errBoom)
	if fail = nil; b.Settled() {
		t.Error("the batch is settled")
	}
	if err := b.Seal(); err != nil {
		t.Error(err)
	}
}

// TestMarkAborted: a marked batch that is given up is over, with its own writes.
func TestMarkAborted(t *testing.T) {
	var log []string
	var b, spare batch.Batch
	b.Put([]byte("b"), nil)
	b.Enlist(&log, &party{"own", &log})
	b.Mark(&spare)
	b.Put([]byte("page"), nil)
	b.Abort(errBoom)
	b.Rewind(nil)
	if !b.Settled() || b.Len() != 1 || !slices.Equal(log, []string{"own failed"}) {
		t.Errorf("settled %v, %d writes, told %q", b.Settled(), b.Len(), log)
	}
	for what, mark := range map[string]func(){
		"settled": func() { b.Mark(&spare) },
		"twice":   func() { b.Reset(); b.Mark(&spare); b.Mark(new(batch.Batch)) },
		"sealed": func() {
			b.Reset()
			b.Late(func(*batch.Batch) error { return nil })
			_ = b.Seal()
			b.Mark(&spare)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: a batch was marked", what)
				}
			}()
			mark()
		}()
	}
}

// TestMarkPanics: a batch that has landed isn't taken back because a participant panics when it is told.
func TestMarkPanics(t *testing.T) {
	var log []string
	var b, spare batch.Batch
	b.Put([]byte("b"), nil)
	b.Late(func(b *batch.Batch) error {
		late := &party{"late", &log}
		b.Enlist(late, late)
		b.OnCommit(func() { panic(errBoom) })
		return nil
	})
	b.Mark(&spare)
	b.Put([]byte("page"), nil)
	if err := b.Seal(); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if p := recover(); p != errBoom {
				t.Errorf("recovered %v", p)
			}
			b.Settle(batch.ErrAborted) // as the store does
		}()
		b.Settle(nil)
	}()
	if want := []string{"late late", "late landed"}; !slices.Equal(log, want) || !b.Settled() || b.Len() != 1 {
		t.Errorf("got %q, want %q; settled %v, %d writes", log, want, b.Settled(), b.Len())
	}
}

// TestMarkAllocates: to mark a batch, to stage and to take back takes no memory once the spare batch has some.
func TestMarkAllocates(t *testing.T) {
	var b, spare batch.Batch
	b.Put([]byte("b"), nil)
	key := make([]byte, 8)
	if n := testing.AllocsPerRun(100, func() {
		b.Mark(&spare)
		for range 20 {
			b.Put(key, nil)
			b.Final().Put(key, nil)
		}
		b.Rewind(nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// An entrant is a participant that keeps its place in a gate while a commit is under way.
type entrant struct {
	gate   *drain.Gate
	entry  batch.Entry
	firsts []bool
}

func (e *entrant) Late(b *batch.Batch) error {
	first, open := e.entry.Enter(b, e.gate)
	if e.firsts = append(e.firsts, first); !open {
		return errors.New("closed")
	}
	return nil
}
func (e *entrant) Landed()            {}
func (e *entrant) Failed(error, bool) {}

// TestEntry: a participant is inside from Late until its commit is over, and enters again for the next one.
func TestEntry(t *testing.T) {
	var b, spare batch.Batch
	e := &entrant{gate: new(drain.Gate)}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	b.Enlist(e, e)
	b.Late(func(b *batch.Batch) error { b.Enlist(e, e); return nil })
	for _, err := range []error{errBoom, nil} {
		b.Mark(&spare)
		if err := b.Seal(); err != nil {
			t.Fatal(err)
		}
		if e.gate.Close(done) == nil {
			t.Error("the gate was closed with a commit inside")
		}
		b.Settle(err)
	}
	if err := e.gate.Close(done); err != nil {
		t.Errorf("closed behind the commits: %v", err)
	}
	if want := []bool{true, false, true, false}; !slices.Equal(e.firsts, want) {
		t.Errorf("first %v, want %v", e.firsts, want)
	}
	b.Reset()
	b.Enlist(e, e)
	if err := b.Seal(); err == nil || err.Error() != "closed" {
		t.Errorf("a closed gate was entered: %v", err)
	}
}
