package host

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
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
		for i, engine := range []kv.Engine{sharedEngine{cut}, sharedEngine{base}} {
			opts := Options{Logger: quiet, IdleTimeout: time.Hour, Store: &actorstore.Options{
				Host: actorstore.HostOptions{Name: []string{"first", "second"}[i]}}}
			h, err := Open(t.Context(), engine, []*Actor{clockThing(&d[i])}, &opts)
			must(t, err)
			hosts[i] = h
		}
		call := func(i int, action string, in any) error {
			_, err := Invoke[any](t.Context(), hosts[i], lobby, action, in)
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
		if n, err := Invoke[int](t.Context(), hosts[1], lobby, "rung", nil); n != 3 || err != nil {
			t.Errorf("%d turns have landed, want 3; %v", n, err)
		}
		for _, h := range hosts {
			if err := h.Close(t.Context()); err != nil && !errors.Is(err, actorstore.ErrLeaseLost) {
				t.Error(err)
			}
		}
	})
}
