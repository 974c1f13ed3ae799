package history

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

func TestStateText(t *testing.T) {
	for s := range State(len(states)) {
		if got, err := parseState(s.String()); got != s || err != nil {
			t.Errorf("%v: got %v, %v", s, got, err)
		}
	}
	for _, text := range []string{"", "Running", "paused", "unknown"} {
		_, err := parseState(text)
		wantErr(t, text, err, errCorrupt)
	}
	if s := State(99).String(); s != "unknown" {
		t.Errorf("got %q", s)
	}
}

// TestTransitions tries every state after every other.
func TestTransitions(t *testing.T) {
	allowed := map[State]string{
		Pending: "running sleeping failed completed cancelled rolling_back", Running: "sleeping failed completed cancelled rolling_back",
		Sleeping: "running failed completed cancelled rolling_back", Failed: "running sleeping completed cancelled rolling_back",
		Completed: "running sleeping failed cancelled rolling_back", Cancelled: "", RollingBack: "failed cancelled",
	}
	for from, list := range allowed {
		want := map[State]bool{from: true}
		for text, rest := "", list; rest != ""; {
			n, _ := fmt.Sscan(rest, &text)
			if rest = rest[n*len(text):]; rest != "" {
				rest = rest[1:]
			}
			s, err := parseState(text)
			must(t, err)
			want[s] = true
		}
		for to := range State(len(states)) {
			r := newRig(t, Options{}, batch.Limits{})
			if from != Pending {
				r.commit(func(tx *Tx) { must(t, tx.SetState(from)) })
			}
			err := r.h.Begin().SetState(to)
			var transition *transitionError
			switch {
			case want[to] != (err == nil):
				t.Errorf("%v to %v: %v", from, to, err)
			case err == nil:
				r.commit(func(tx *Tx) { must(t, tx.SetState(to)) })
				r.verify(to.String())
			case !errors.As(err, &transition) || transition.From != from || transition.To != to || !errors.Is(err, ErrTransition):
				t.Errorf("%v to %v: %#v", from, to, err)
			case errors.Is(err, ErrCancelled) != (from == Cancelled):
				t.Errorf("%v to %v: %v", from, to, err)
			}
		}
	}
}

// A cancellation that lands while something is under way isn't overwritten by it, neither
// by what is staged nor by what is begun later.
func TestCancelIsAbsorbing(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	r.commit(func(tx *Tx) { must(t, tx.SetState(Running)) })
	late := map[string]*Tx{}
	for name, fn := range map[string]func(tx *Tx) error{
		"sleeping": func(tx *Tx) error { return tx.SetState(Sleeping) },
		"output":   func(tx *Tx) error { return tx.SetOutput([]byte("o")) },
		"error":    func(tx *Tx) error { return tx.SetError(&Failure{Name: "Error"}) },
		"input":    func(tx *Tx) error { return tx.SetInput([]byte("i")) },
		"reset":    func(tx *Tx) error { return tx.Reset(false) },
	} {
		late[name] = r.h.Begin()
		must(t, fn(late[name]))
	}
	step := r.h.Begin()
	r.step(step, "done", "s")
	r.commit(func(tx *Tx) { must(t, tx.SetState(Cancelled)) })
	for name, tx := range late {
		wantErr(t, name+" committed", tx.Commit(ctx), ErrCancelled)
		if name != "reset" {
			wantErr(t, name+" deferred", tx.Defer(), ErrCancelled)
		}
	}
	// What was done is recorded all the same.
	must(t, step.Commit(ctx))
	r.wantPaths("after", "s")
	for name, err := range map[string]error{
		"running": r.h.Begin().SetState(Running), "output": r.h.Begin().SetOutput(nil),
		"error": r.h.Begin().SetError(nil), "reset": r.h.Begin().Reset(false),
	} {
		wantErr(t, name, err, ErrCancelled)
	}
	r.commit(func(tx *Tx) { must(t, tx.SetState(Cancelled)) })
	r.verify("after")
	r.reopen()
	if s := r.h.State(); s != Cancelled {
		t.Errorf("after a restart: %v", s)
	}
}

// Of outputs and errors the last run's are stored, and nothing stale is left.
func TestOutcomes(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	boom := &Failure{Name: "Error", Message: "boom", Stack: "at x", Metadata: cbor.Object{{Name: "code", Value: 7}, {Name: "ok", Value: nil}}}
	look := func(what, output, failure string) {
		t.Helper()
		for range 2 {
			r.verify(what)
			got := ""
			if f := r.h.Failure(); f != nil {
				got = f.Error()
			}
			if string(r.h.Output()) != output || got != failure || (r.h.Output() == nil) != (output == "") {
				t.Errorf("%s: output %q and error %q, want %q and %q", what, r.h.Output(), got, output, failure)
			}
			r.reopen()
		}
	}
	r.commit(func(tx *Tx) { must(t, tx.SetState(RollingBack)); must(t, tx.SetError(boom)) })
	look("rolling back", "", "Error: boom")
	r.commit(func(tx *Tx) { must(t, tx.SetState(Failed)) })
	look("failed", "", "Error: boom")
	r.commit(func(tx *Tx) { must(t, tx.SetState(Running)) })
	look("running again", "", "Error: boom")
	r.commit(func(tx *Tx) { must(t, tx.SetState(Completed)); must(t, tx.SetOutput([]byte("v"))) })
	look("completed", "v", "")
	r.commit(func(tx *Tx) { must(t, tx.SetState(Completed)) })
	look("completed without a result", "", "")
	r.commit(func(tx *Tx) { must(t, tx.SetOutput([]byte("v"))) })
	r.commit(func(tx *Tx) { must(t, tx.SetState(Failed)); must(t, tx.SetError(boom)) })
	look("failed in the end", "", "Error: boom")
	r.commit(func(tx *Tx) { must(t, tx.SetState(Sleeping)); must(t, tx.SetError(nil)) })
	look("recovered", "", "")
	wantErr(t, "metadata of an odd kind",
		r.h.Begin().SetError(&Failure{Metadata: cbor.Object{{Name: "x", Value: []int{1}}}}), errInvalid)
}

// After Reset it is as if nothing had been, but for the names; and what follows is the
// next run's.
func TestReset(t *testing.T) {
	r := newRig(t, Options{}, whole)
	for _, again := range []bool{false, true} {
		r.commit(func(tx *Tx) {
			must(t, tx.SetState(Failed))
			must(t, tx.SetInput([]byte("in")))
			must(t, tx.SetError(&Failure{Name: "Error"}))
			r.step(tx, "1", "a", "b")
			r.step(tx, "1", "c")
		})
		c := r.counted(func() {
			r.commit(func(tx *Tx) {
				must(t, tx.SetOutput([]byte("forgotten")))
				must(t, tx.Reset(false))
				if again {
					must(t, tx.SetInput([]byte("next")))
					must(t, tx.SetState(Running))
					r.step(tx, "2", "c")
				}
			})
		})
		if c.Commits != 1 {
			t.Errorf("%d commits, %d reads", c.Commits, c.Gets+c.Scans)
		}
		r.verify("reset")
		s := r.h.Snapshot()
		switch {
		case again && (s.State != Running || string(s.Input) != "next" || len(s.Entries) != 1):
			t.Errorf("got %+v", s)
		case !again && (s.State != Pending || s.Input != nil || len(s.Entries) != 0):
			t.Errorf("got %+v", s)
		}
		if s.Output != nil || s.Error != nil || len(s.Names) != 3 {
			t.Errorf("got %+v", s)
		}
	}
	if entries, bytes := r.h.Usage(); entries != 1 || bytes == 0 {
		t.Errorf("%d entries, %d bytes", entries, bytes)
	}
}

// A saved history is put into an empty one, as it was.
func TestRestore(t *testing.T) {
	from := newRig(t, Options{}, batch.Limits{})
	from.commit(func(tx *Tx) {
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
			from.step(tx, name, "scope", name)
		}
		must(t, tx.SetState(Failed))
		must(t, tx.SetInput([]byte("in")))
		must(t, tx.SetError(&Failure{Name: "Error", Message: "boom"}))
	})
	saved := from.h.Snapshot()
	to := newRig(t, Options{}, batch.Limits{})
	to.commit(func(tx *Tx) { must(t, tx.Restore(saved)) })
	wantEqual(t, "restored", to.h.Snapshot(), saved)
	to.verify("restored")
	wantErr(t, "again", to.h.Begin().Restore(saved), errInvalid)
	empty := newRig(t, Options{}, batch.Limits{})
	wantErr(t, "a name twice", empty.h.Begin().Restore(&Snapshot{Names: []string{"a", "a"}}), errInvalid)
}

// TestWakes: a commit that leaves a workflow with something to do has the store wake the actor, and one that ends the workflow, or comes
// before it has an input, doesn't.
func TestWakes(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	defer r.close()
	for _, step := range []struct {
		what  string
		fn    func(tx *Tx) error
		wakes bool
	}{
		{"a step before it is started", func(tx *Tx) error { r.step(tx, "1", "a"); return nil }, false},
		{"the start", func(tx *Tx) error { return tx.SetInput([]byte("in")) }, true},
		{"a step", func(tx *Tx) error { r.step(tx, "2", "b"); return nil }, true},
		{"sleep", func(tx *Tx) error { return tx.SetState(Sleeping) }, true},
		{"failure", func(tx *Tx) error { return tx.SetState(Failed) }, false},
		{"recovery", func(tx *Tx) error { return tx.SetState(Running) }, true},
		{"the end", func(tx *Tx) error { return tx.SetState(Completed) }, false},
		{"a step behind the end", func(tx *Tx) error { r.step(tx, "3", "c"); return nil }, false},
	} {
		must(t, r.Actor.SetWake(t.Context(), actorstore.Wake{}))
		r.commit(func(tx *Tx) { must(t, step.fn(tx)) })
		if wakes := !r.Actor.Wake().At.IsZero(); wakes != step.wakes {
			t.Errorf("%s: the actor is to be woken: %v, want %v", step.what, wakes, step.wakes)
		}
	}
}
