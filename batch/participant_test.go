package batch_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
)

// recorder notes which hooks ran, in order.
type recorder struct{ events []string }

func (r *recorder) add(b *batch.Batch, name string) {
	b.OnCommit(func() { r.events = append(r.events, "commit "+name) })
	b.OnAbort(func(err error) { r.events = append(r.events, fmt.Sprintf("abort %s: %v", name, err)) })
}

func (r *recorder) check(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(r.events, want) {
		t.Errorf("events %q, want %q", r.events, want)
	}
}

var errBoom = errors.New("boom")

func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name   string
		settle func(*batch.Batch)
		want   []string
	}{
		{"commit", func(b *batch.Batch) { b.Settle(nil) }, []string{"commit a", "commit b"}},
		{"failure", func(b *batch.Batch) { b.Settle(errBoom) }, []string{"abort b: boom", "abort a: boom"}},
		{"abort", func(b *batch.Batch) { b.Abort(errBoom) }, []string{"abort b: boom", "abort a: boom"}},
		{"abort without reason", func(b *batch.Batch) { b.Abort(nil) }, []string{"abort b: batch: given up", "abort a: batch: given up"}},
		{"reset", func(b *batch.Batch) { b.Reset() }, []string{"abort b: batch: given up", "abort a: batch: given up"}},
		{"commit, then a deferred abort", func(b *batch.Batch) { b.Settle(nil); b.Abort(errBoom) }, []string{"commit a", "commit b"}},
		{"failure, then commit", func(b *batch.Batch) { b.Settle(errBoom); b.Settle(nil) }, []string{"abort b: boom", "abort a: boom"}},
		{"commit and reset", func(b *batch.Batch) { b.Settle(nil); b.Reset() }, []string{"commit a", "commit b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b batch.Batch
			var r recorder
			r.add(&b, "a")
			r.add(&b, "b")
			if b.Settled() {
				t.Error("settled before Settle")
			}
			c.settle(&b)
			r.check(t, c.want...)
			b.Reset()
			b.Settle(nil)
			r.check(t, c.want...) // a reused batch has forgotten its hooks
		})
	}
}

// TestSettleFromHook: a hook that settles or aborts its own batch changes nothing.
// TestHookPanics: what is told behind a hook that panics is told all the same.
func TestHookPanics(t *testing.T) {
	for _, err := range []error{nil, errBoom} {
		var b batch.Batch
		var r recorder
		r.add(&b, "a")
		b.OnCommit(func() { panic("hook") })
		b.OnAbort(func(error) { panic("hook") })
		r.add(&b, "b")
		func() {
			defer func() {
				if p := recover(); p != "hook" {
					t.Errorf("recovered %v", p)
				}
			}()
			b.Settle(err)
		}()
		want := []string{"commit a", "commit b"}
		if err != nil {
			want = []string{"abort b: boom", "abort a: boom"}
		}
		r.check(t, want...)
	}
}

func TestSettleFromHook(t *testing.T) {
	var b batch.Batch
	var r recorder
	b.OnCommit(func() { b.Abort(errBoom) })
	r.add(&b, "a")
	b.Settle(nil)
	r.check(t, "commit a")
}

func TestHookAfterSettle(t *testing.T) {
	for name, add := range map[string]func(*batch.Batch){
		"OnCommit": func(b *batch.Batch) { b.OnCommit(func() {}) },
		"OnAbort":  func(b *batch.Batch) { b.OnAbort(func(error) {}) },
		"Late":     func(b *batch.Batch) { b.Late(func(*batch.Batch) error { return nil }) },
		"Enlist":   func(b *batch.Batch) { b.Enlist(b, &member{}) },
	} {
		func() {
			defer func() {
				if r := recover(); r != "batch: a settled batch takes no participant" {
					t.Errorf("%s: panic %v", name, r)
				}
			}()
			var b batch.Batch
			b.Settle(nil)
			add(&b)
		}()
	}
}

// TestSeal: Late functions run once each, in order, with those that they add
// behind them, and see everything staged before.
func TestSeal(t *testing.T) {
	var b batch.Batch
	var r recorder
	note := func(name string) func(*batch.Batch) error {
		return func(b *batch.Batch) error {
			r.events = append(r.events, fmt.Sprintf("%s sees %d", name, b.Len()))
			b.Put([]byte(name), nil)
			return nil
		}
	}
	b.Late(func(b *batch.Batch) error {
		b.Late(note("third"))
		return note("first")(b)
	})
	b.Late(note("second"))
	b.Put([]byte("k"), nil)
	for range 2 { // a commit that is tried again seals again
		if err := b.Seal(); err != nil {
			t.Fatal(err)
		}
		r.check(t, "first sees 1", "second sees 2", "third sees 3")
	}
	b.Late(note("fourth"))
	if err := b.Seal(); err != nil {
		t.Fatal(err)
	}
	r.check(t, "first sees 1", "second sees 2", "third sees 3", "fourth sees 4")
	b.Settle(nil)
	if err := b.Seal(); err != batch.ErrSettled {
		t.Errorf("Seal of a settled batch: %v, want ErrSettled", err)
	}
}

// TestSealFails: the first error ends sealing for good, and Reset forgets it.
func TestSealFails(t *testing.T) {
	var b batch.Batch
	ran := 0
	b.Late(func(*batch.Batch) error { ran++; return errBoom })
	b.Late(func(*batch.Batch) error { ran++; return nil })
	for range 2 {
		if err := b.Seal(); err != errBoom {
			t.Errorf("Seal = %v, want %v", err, errBoom)
		}
	}
	if ran != 1 {
		t.Errorf("%d late functions ran, want 1", ran)
	}
	b.Reset()
	if err := b.Seal(); err != nil {
		t.Errorf("Seal after Reset: %v", err)
	}
}

// A member is a participant that notes what it is told, and stages a key named so.
type member struct {
	r    *recorder
	name string
	late func(b *batch.Batch)
}

func (m *member) note(what string) { m.r.events = append(m.r.events, what+" "+m.name) }

func (m *member) Late(b *batch.Batch) error {
	m.note("late")
	b.Put([]byte(m.name), nil)
	if m.late != nil {
		m.late(b)
	}
	return nil
}

func (m *member) Landed() { m.note("landed") }

func (m *member) Failed(reason error, partly bool) {
	m.note(fmt.Sprintf("failed %v %v", reason, partly))
}

// TestEnlist: there is one participant for each owner, which hears of the end once.
func TestEnlist(t *testing.T) {
	type owner struct{ _ int }
	x, y := new(owner), new(owner)
	part := &batch.OrderedError{Landed: 1, Total: 2, Err: errBoom}
	for _, c := range []struct {
		name   string
		end    func(*batch.Batch, error)
		reason error
		want   []string
	}{
		{"landed", (*batch.Batch).Settle, nil, []string{"landed x", "landed y"}},
		{"failed", (*batch.Batch).Settle, errBoom, []string{"failed boom false y", "failed boom false x"}},
		{"in part", (*batch.Batch).Settle, fmt.Errorf("queue: %w", part), []string{
			fmt.Sprintf("failed queue: %v true y", part), fmt.Sprintf("failed queue: %v true x", part)}},
		{"given up for a part of another", (*batch.Batch).Abort, part, []string{
			fmt.Sprintf("failed %v false y", part), fmt.Sprintf("failed %v false x", part)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b batch.Batch
			var r recorder
			px, py := &member{r: &r, name: "x"}, &member{r: &r, name: "y"}
			if got := b.Enlisted(x); got != nil {
				t.Errorf("in an empty batch: %v", got)
			}
			// y's turn makes x's come again, as if it had staged something with x.
			py.late = func(b *batch.Batch) { b.Enlist(x, px) }
			b.Enlist(x, px)
			b.Enlist(x, px) // it is to be asked already
			b.Enlist(y, py)
			if b.Enlisted(x) != batch.Participant(px) || b.Enlisted(y) != batch.Participant(py) {
				t.Error("the participants are not found")
			}
			if err := b.Seal(); err != nil {
				t.Fatal(err)
			}
			r.check(t, "late x", "late y", "late x")
			r.events = nil
			c.end(&b, c.reason)
			r.check(t, c.want...)
			if b.Reset(); b.Enlisted(x) != nil {
				t.Error("a batch that was Reset has participants")
			}
		})
	}
}

// TestEnlistAllocs: a batch that is used again allocates nothing for its participants.
func TestEnlistAllocs(t *testing.T) {
	owner := new(int)
	p := new(silent)
	var b batch.Batch
	round := func() {
		b.Reset()
		if b.Enlisted(owner) == nil {
			b.Enlist(owner, p)
		}
		if err := b.Seal(); err != nil {
			t.Fatal(err)
		}
		b.Settle(nil)
	}
	round()
	if n := testing.AllocsPerRun(100, round); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

type silent struct{}

func (*silent) Late(*batch.Batch) error { return nil }
func (*silent) Landed()                 {}
func (*silent) Failed(error, bool)      {}

// A party notes what it is told.
type party struct {
	name string
	log  *[]string
}

func (p *party) note(what string) error {
	*p.log = append(*p.log, p.name+" "+what)
	return nil
}

func (p *party) Late(*batch.Batch) error { return p.note("late") }
func (p *party) Landed()                 { _ = p.note("landed") }
func (p *party) Failed(error, bool)      { _ = p.note("failed") }

// TestIn: an owner has one participant in a batch, and Late of it is called again if it is asked
// for when that has been called.
func TestIn(t *testing.T) {
	var log []string
	owner, made := new(int), 0
	in := func(b *batch.Batch) *party {
		return batch.In(b, owner, func() *party { made++; return &party{fmt.Sprint(made), &log} })
	}
	var b batch.Batch
	p := in(&b)
	if in(&b) != p || made != 1 || b.Enlisted(owner) != batch.Participant(p) {
		t.Errorf("%d participants", made)
	}
	b.Late(func(b *batch.Batch) error { in(b); return nil })
	if err := b.Seal(); err != nil {
		t.Fatal(err)
	}
	b.Settle(nil)
	if in(&b) != p || in(new(batch.Batch)) == p {
		t.Error("a batch that is settled forgets its participants, or a new one has them")
	}
	if want := []string{"1 late", "1 late", "1 landed"}; !slices.Equal(log, want) {
		t.Errorf("got %q, want %q", log, want)
	}
	b.Reset()
	b.Abort(nil)
	if in(&b); b.Enlisted(owner) != nil {
		t.Error("a settled batch has taken a participant")
	}
}

// TestEnlistAgain: Late of a participant that stages more is called again, until its batch is settled or used anew.
func TestEnlistAgain(t *testing.T) {
	var log []string
	owner := new(int)
	p, other := &party{"p", &log}, &party{"other", &log}
	var b batch.Batch
	if err := b.EnlistAgain(owner, p); err != batch.ErrSettled || b.Enlisted(owner) != nil {
		t.Errorf("a participant that isn't in the batch: %v", err)
	}
	b.Enlist(owner, p)
	b.Late(func(b *batch.Batch) error { return b.EnlistAgain(owner, p) })
	if err := b.EnlistAgain(owner, p); err != nil { // it is to be called already
		t.Error(err)
	}
	if err := b.Seal(); err != nil {
		t.Fatal(err)
	}
	b.Settle(nil)
	if err := b.EnlistAgain(owner, p); err != batch.ErrSettled {
		t.Errorf("in a settled batch: %v", err)
	}
	b.Reset()
	b.Enlist(owner, other)
	if err := b.EnlistAgain(owner, p); err != batch.ErrSettled || b.Enlisted(owner) != batch.Participant(other) {
		t.Errorf("a participant of an earlier use: %v", err)
	}
	if want := []string{"p late", "p late", "p landed"}; !slices.Equal(log, want) {
		t.Errorf("got %q, want %q", log, want)
	}
}
