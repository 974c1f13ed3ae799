package itemstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A step is an operation, on a store and on a model.
type step struct {
	name  string
	do    func(ctx context.Context, s *itemstore.Store) error
	model func(m *model)
	// parts says that it takes several commits.
	parts bool
}

func putStep(name string, items func() []any) step {
	return step{name: name,
		do:    func(ctx context.Context, s *itemstore.Store) error { return s.PutAll(ctx, items(), nil) },
		model: func(m *model) { _ = m.put(items(), false) }}
}

// script is what the tests of faults and crashes do.
func script(now *time.Time) []step {
	hour := func(h int8) (at struct{ Hour int8 }) { at.Hour = h; return at }
	start := *now
	return []step{
		putStep("two people", func() []any {
			return []any{&Person{ID: 1, Email: "a", Team: 1, Name: "Ada"}, &Person{ID: 2, Email: "b", Team: 1, Name: "Bo"}}
		}),
		putStep("swapped addresses", func() []any {
			return []any{&Person{ID: 1, Email: "b", Team: 1, Name: "Ada"}, &Person{ID: 2, Email: "a", Team: 2, Name: "Bo"}}
		}),
		putStep("a task", func() []any { return []any{&Task{Team: 1, N: 7, Owner: 1, Key: [16]byte{1}}} }),
		putStep("a long note that ends", func() []any {
			return []any{&Note{Person: 1, Text: make([]byte, 95_000), Until: start.Add(time.Minute)}, &Note{Person: 2, Text: []byte("x")}}
		}),
		putStep("slots", func() []any {
			return []any{&Slot{Day: 1, At: hour(9), Room: "a", Person: 1}, &Slot{Day: 1, At: hour(10), Room: "a"}}
		}),
		putStep("a slot elsewhere", func() []any { return []any{&Slot{Day: 1, At: hour(9), Room: "b", Person: 2}} }),
		{name: "an update",
			do: func(ctx context.Context, s *itemstore.Store) error {
				_, err := itemstore.Update(ctx, s, "/email-b", func(p *Person) error { p.Team, p.Name = 3, "Cy"; return nil })
				return err
			},
			model: func(m *model) { _ = m.put([]any{&Person{ID: 1, Email: "b", Team: 3, Name: "Cy"}}, false) }},
		{name: "a deletion",
			do: func(ctx context.Context, s *itemstore.Store) error {
				return s.Delete(ctx, "/email-a", "/person-2/note")
			},
			model: func(m *model) { m.delete("/email-a"); m.delete("/person-2/note") }},
		{name: "a minute later", do: func(context.Context, *itemstore.Store) error { *now = start.Add(2 * time.Minute); return nil },
			model: func(m *model) { m.now = start.Add(2 * time.Minute) }},
		{name: "sweep", parts: true,
			do: func(ctx context.Context, s *itemstore.Store) error { _, err := s.Sweep(ctx); return err },
			model: func(m *model) {
				for p, item := range m.items {
					if m.ended(item) {
						delete(m.items, p)
					}
				}
			}},
		putStep("more", func() []any {
			return []any{&Task{Team: 1, N: 1, Owner: 3, Key: [16]byte{1}}, &Task{Team: 1, N: 2}, &Person{ID: 4, Team: 1, Name: "Di"}}
		}),
		{name: "delete all of a team", parts: true,
			do: func(ctx context.Context, s *itemstore.Store) error {
				_, err := s.DeletePrefix(ctx, "/team-1")
				return err
			},
			model: func(m *model) {
				for _, e := range m.list("/team-1", &itemstore.ListOptions{}) {
					delete(m.items, e.primary)
				}
			}},
	}
}

// playing is a run of the script.
type playing struct {
	*rig
	steps []step
	next  int
}

func play(t *testing.T, e kv.Engine) *playing {
	t.Helper()
	r := newRig(t, e, 0)
	now := r.m.now
	p := &playing{rig: r, steps: script(&now)}
	p.reopen(e, &now)
	return p
}

func (p *playing) reopen(e kv.Engine, now *time.Time) {
	p.Helper()
	schema, err := modelSchema()
	if err != nil {
		p.Fatal(err)
	}
	opts := &itemstore.Options{Now: func() time.Time { return *now }, TombstoneAge: time.Hour}
	opts.Transactions.MaxAge = time.Hour
	if p.s, err = itemstore.Open(p.ctx, e, "model", schema, opts); err != nil {
		p.Fatal(err)
	}
}

// run does what is left of the script until a step fails.
func (p *playing) run() error {
	for ; p.next < len(p.steps); p.next++ {
		st := p.steps[p.next]
		p.did("%s", st.name)
		if err := st.do(p.ctx, p.s); err != nil {
			return err
		}
		st.model(p.m)
	}
	return nil
}

// settle holds the store against the model after a step failed, which may be applied all the same, and goes on.
func (p *playing) settle(mayBeApplied bool) {
	p.Helper()
	if st := p.steps[p.next]; !st.parts {
		before := p.m.clone()
		if after := p.m.clone(); mayBeApplied {
			st.model(after)
			if n, err := p.count(); err == nil && n == len(after.list("", &itemstore.ListOptions{})) && n != len(before.list("", &itemstore.ListOptions{})) {
				before = after
			}
			p.m = before
			if _, err := p.count(); err != nil {
				p.fail("count: %v", err)
			}
			p.checkOnly()
		} else {
			p.check()
		}
		p.m = before
	} else {
		p.checkOnly()
	}
	if err := p.run(); err != nil {
		p.fail("going on: %v", err)
	}
	p.check()
}

func (p *playing) count() (n int, err error) {
	for _, err := range p.s.List(p.ctx, "", nil) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// checkOnly looks for what doesn't fit together, and at nothing else.
func (p *playing) checkOnly() {
	p.Helper()
	problems, err := p.s.Check(p.ctx)
	if err != nil || len(problems) > 0 {
		p.fail("check: %v, %+v", err, problems)
	}
}

// TestFaults has each operation of the engine fail once.
func TestFaults(t *testing.T) {
	for name, point := range map[string]faultkv.Point{"get": faultkv.BeforeGet, "scan": faultkv.BeforeScan, "entry": faultkv.BeforeEntry,
		"attempt": faultkv.BeforeAttempt, "commit": faultkv.BeforeCommit, "acknowledgement": faultkv.AfterCommit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := 0; ; n++ {
				e := faultkv.New(memkv.New())
				p := play(t, e)
				f := e.Fail(faultkv.Rule{Point: point, Skip: n})
				err := p.run()
				f.Remove()
				if f.Hits() == 0 {
					if err != nil {
						t.Fatal(err)
					}
					if n < 3 {
						t.Errorf("%d operations", n)
					}
					break
				}
				if !errors.Is(err, faultkv.ErrInjected) {
					p.fail("operation %d of the kind fails: %v", n, err)
				}
				p.settle(point == faultkv.AfterCommit)
			}
		})
	}
}

// TestCrash has the process die after each commit.
func TestCrash(t *testing.T) {
	for n := 0; ; n++ {
		e := faultkv.New(memkv.New())
		p := play(t, e)
		e.Tear(n)
		err := p.run()
		e.Heal()
		if err == nil {
			if n < len(p.steps)-1 {
				t.Errorf("%d commits", n)
			}
			return
		}
		if !errors.Is(err, faultkv.ErrTorn) {
			p.fail("after %d commits: %v", n, err)
		}
		now := p.m.now
		p.reopen(e, &now)
		steps, at := script(&now), p.next
		p.steps, p.next = steps, at
		p.settle(false)
	}
}

// TestConflicts: of two transactions that put an item at one path one lands and the other one finds it taken,
// and writers of one group don't wait for each other when its commits aren't counted.
func TestConflicts(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name      string
		a, b      any
		conflicts bool
		err       error
	}{
		{"one group", &Task{Team: 1, N: 1, Owner: 1, Key: [16]byte{1}}, &Task{Team: 1, N: 2, Owner: 1, Key: [16]byte{2}}, false, nil},
		{"one address", &Person{ID: 1, Email: "a"}, &Person{ID: 2, Email: "a"}, true, itemstore.ErrPathTaken},
		{"one item", &Person{ID: 1}, &Person{ID: 1, Email: "a"}, true, nil},
		{"one sequence", &Task{Team: 1}, &Task{Team: 1}, true, nil},
		{"one versioned group", &Slot{Day: 1, At: struct{ Hour int8 }{1}}, &Slot{Day: 1, At: struct{ Hour int8 }{2}}, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := faultkv.New(memkv.New())
			s := newRig(t, e, 0).s
			e.Reset()
			runs := 0
			err := s.Update(ctx, func(tx *itemstore.Tx) error {
				if runs++; runs == 1 {
					if err := tx.Put(ctx, c.a, nil); err != nil {
						return err
					}
					return s.Put(ctx, c.b, nil) // lands first
				}
				return tx.Put(ctx, c.a, nil)
			})
			if !errors.Is(err, c.err) {
				t.Fatalf("got %v, want %v", err, c.err)
			}
			if want := map[bool]int{false: 1, true: 2}[c.conflicts]; runs != want {
				t.Errorf("the transaction ran %d times, want %d", runs, want)
			}
			if c.name == "one sequence" && c.a.(*Task).N+c.b.(*Task).N != 3 {
				t.Errorf("numbers %d and %d", c.a.(*Task).N, c.b.(*Task).N)
			}
			problems, err := s.Check(ctx)
			if err != nil || len(problems) > 0 {
				t.Errorf("check: %v, %v", err, problems)
			}
		})
	}
}

// TestVersions: a versioned group counts its commits, whatever their size, and another one has stamps that grow.
func TestVersions(t *testing.T) {
	ctx := t.Context()
	s := newRig(t, memkv.New(), 0).s
	slot := func(h int8) *Slot { return &Slot{Day: 1, At: struct{ Hour int8 }{h}, Room: "a"} }
	a, b := slot(1), slot(2)
	counts := func() string { return fmt.Sprint(a.Version.Count(), b.Version.Count()) }
	if err := s.Put(ctx, a, nil); err != nil || a.Version.Count() != 1 {
		t.Errorf("the first commit is %d, %v", a.Version.Count(), err)
	}
	if err := s.PutAll(ctx, []any{a, b}, nil); err != nil || counts() != "2 2" {
		t.Errorf("a batch of two: %s, %v", counts(), err)
	}
	if err := s.Delete(ctx, "/day-1/slot-1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ctx, b, nil); err != nil || counts() != "2 4" {
		t.Errorf("after a deletion: %s, %v", counts(), err)
	}
	// The room's group has counted the same commits, and one of another day's.
	other := slot(3)
	other.Day = 2
	if err := s.Put(ctx, other, nil); err != nil || other.Version.Count() != 1 {
		t.Errorf("another day's first commit is %d, %v", other.Version.Count(), err)
	}
	got, err := itemstore.Get[Slot](ctx, s, "/room-a/day-2/slot-3")
	if err != nil || got.Version.Count() != 5 {
		t.Errorf("in the room it is %d, %v", got.Version.Count(), err)
	}
	p := &Person{ID: 1, Team: 1}
	var last itemstore.Meta
	for range 3 {
		if err := s.Put(ctx, p, nil); err != nil {
			t.Fatal(err)
		}
		if p.Meta.Version.Compare(last.Version) <= 0 || last.Version != (itemstore.Version{}) && p.Meta.First != last.First {
			t.Errorf("after %+v comes %+v", last, p.Meta)
		}
		last = p.Meta
		for _, path := range []itemstore.Path{"/person-1", "/team-1/person-1"} {
			read, err := itemstore.Get[Person](ctx, s, path)
			if err != nil || read.Meta != p.Meta {
				t.Errorf("%s: got %+v, %v, want %+v", path, read.Meta, err, p.Meta)
			}
		}
	}
}
