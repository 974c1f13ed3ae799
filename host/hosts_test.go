package host

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestHostHangs cuts a host off from the engine that it shares with another one. The
// other one has its actors when the lease is over, does what they were to do, and the
// first can write nothing more.
func TestHostHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := memkv.New()
		cut := faultkv.New(base)
		var d [2]diary
		var hosts [2]*Host
		for i, engine := range []kv.Engine{engines.Shared(cut), engines.Shared(base)} {
			opts := Options{Logger: quiet, IdleTimeout: time.Hour, Store: &greenroom.Options{
				Host: actorstore.HostOptions{Name: []string{"first", "second"}[i]}}}
			h, err := Open(t.Context(), engine, []*Type{clockThing(&d[i])}, &opts)
			must(t, err)
			hosts[i] = h
		}
		call := func(i int, action string, in any) error {
			_, err := invoke[any](t.Context(), hosts[i], lobby, action, in)
			return err
		}
		must(t, call(0, "plan", 5*time.Minute))
		must(t, call(0, "ring", "first"))
		wantErr(t, call(1, "rung", nil), actorstore.ErrInUse)
		var faults []*faultkv.Fault
		for _, p := range []faultkv.Point{faultkv.BeforeCommit, faultkv.BeforeGet, faultkv.BeforeScan, faultkv.BeforeSnapshot, faultkv.BeforeSync, faultkv.BeforeOutcome} {
			faults = append(faults, cut.Fail(faultkv.Rule{Point: p, Times: faultkv.Forever}))
		}
		waited := time.Duration(0)
		for {
			err := call(1, "ring", "second")
			if err == nil {
				break
			}
			wantErr(t, err, actorstore.ErrInUse)
			pass(time.Second)
			if waited += time.Second; waited > time.Minute {
				t.Fatal("the actor is still the first host's a minute after that was cut off")
			}
		}
		if err := call(0, "ring", "never"); err == nil {
			t.Error("a host that is cut off has made a turn")
		}
		for _, f := range faults {
			f.Remove()
		}
		if err := call(0, "ring", "never"); err == nil {
			t.Error("the first host has made a turn of an actor that is the second one's")
		}
		pass(10 * time.Minute)
		d[1].want(t, "second", "bell")
		if n, err := invoke[int](t.Context(), hosts[1], lobby, "rung", nil); n != 3 || err != nil {
			t.Errorf("%d turns have landed, want 3; %v", n, err)
		}
		for _, h := range hosts {
			if err := h.Close(t.Context()); err != nil && !errors.Is(err, actorstore.ErrLeaseLost) {
				t.Error(err)
			}
		}
	})
}

// TestFencedMeanwhile has a turn land whose host is told so only when it has lost the
// actor: the caller must not be told that nothing has landed.
func TestFencedMeanwhile(t *testing.T) {
	for _, tc := range []struct {
		name string
		late faultkv.Rule
	}{
		{"told late", faultkv.Rule{Point: faultkv.AfterCommit}},
		{"told nothing", faultkv.Rule{Point: faultkv.AfterApply, Err: kv.ErrUnknownOutcome}},
	} {
		for _, action := range []string{"sql", "state"} {
			t.Run(tc.name+", "+action, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { fencedMeanwhile(t, action, tc.late) })
			})
		}
	}
}

// abacus counts in its state alone, or in SQL as well.
func abacus() *Type {
	count := func(c *Context) (n int, err error) {
		return n, greenroom.Mutate(c, func(v *int) error { *v++; n = *v; return nil })
	}
	return &Type{Name: "thing", Actions: []AnyAction{
		NewAction("get", func(c *Context, _ struct{}) (int, error) { return greenroom.State[int](c) }),
		NewAction("state", func(c *Context, _ struct{}) (int, error) { return count(c) }),
		NewAction("sql", func(c *Context, _ struct{}) (int, error) {
			tx, err := c.SQL()
			if err != nil {
				return 0, err
			}
			if _, err := tx.ExecContext(c, "create table if not exists t(x); insert into t values(1)"); err != nil {
				return 0, err
			}
			return count(c)
		}),
	}}
}

func fencedMeanwhile(t *testing.T, action string, late faultkv.Rule) {
	base := memkv.New()
	cut := faultkv.New(base)
	var hosts [2]*Host
	for i, engine := range []kv.Engine{engines.Shared(cut), engines.Shared(base)} {
		h, err := Open(t.Context(), engine, []*Type{abacus()}, &Options{Logger: quiet, IdleTimeout: time.Hour})
		must(t, err)
		hosts[i] = h
	}
	defer func() {
		for _, h := range hosts {
			if err := h.Close(t.Context()); err != nil && !errors.Is(err, actorstore.ErrLeaseLost) {
				t.Error(err)
			}
		}
	}()
	_, err := invoke[int](t.Context(), hosts[0], lobby, action, nil)
	must(t, err)
	pause := cut.Pause(late)
	counted := make(chan error, 1)
	go func() {
		_, err := invoke[int](t.Context(), hosts[0], lobby, action, nil)
		counted <- err
	}()
	<-pause.Reached()
	away := cut.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever}) // the lease isn't renewed
	n := 0
	for n == 0 {
		if n, err = invoke[int](t.Context(), hosts[1], lobby, "get", nil); err != nil {
			wantErr(t, err, actorstore.ErrInUse)
			pass(time.Second)
		}
	}
	if n != 2 {
		t.Errorf("%d turns have landed, want 2", n)
	}
	away.Remove()
	pass(time.Minute) // the first host finds out
	pause.Release()
	wantErr(t, <-counted, ErrUnknownOutcome)
}
