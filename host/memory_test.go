package host

import (
	"context"
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

// rememberer keeps a number in memory, and tells it without a look at the store.
func rememberer() *Type {
	vars := func(c *Context) *int { return c.Vars().(*int) }
	return &Type{
		Name: "thing",
		Vars: func(context.Context, Address) (any, error) { return new(int), nil },
		Wake: func(c *Context) (err error) {
			*vars(c), err = greenroom.State[int](c)
			return err
		},
		Actions: []AnyAction{
			NewAction("add", func(c *Context, _ struct{}) (n int, err error) {
				c.AfterCommit(func() { *vars(c) = n })
				return n, greenroom.Mutate(c, func(v *int) error { *v++; n = *v; return nil })
			}),
			NewAction("state", func(c *Context, _ struct{}) (int, error) { return greenroom.State[int](c) }),
			NewAction("vars", func(c *Context, _ struct{}) (int, error) { return *vars(c), nil }),
			NewAction("queue", func(c *Context, _ struct{}) (int, error) { return c.life.queue.Len(), nil }),
			NewAction("fail", func(c *Context, _ struct{}) (int, error) { return 0, &Error{Code: "full"} }),
		},
	}
}

// memories are the actions of a rememberer that need nothing but memory.
var memories = []string{"state", "vars", "queue", "fail"}

// TestMemoryAfterFailover: no turn, not even one that doesn't need the store, returns what the new
// server doesn't know.
func TestMemoryAfterFailover(t *testing.T) {
	for _, action := range memories {
		t.Run(action, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := faultkv.NewServer(func() kv.Engine { return memkv.New() })
				r := newRigOn(t, server, Options{IdleTimeout: time.Hour}, rememberer())
				r.call(lobby, "add", nil)
				r.call(lobby, "add", nil)
				server.Failover(1)
				_, err := invoke[int](r.ctx, r.Host, lobby, action, nil)
				wantErr(t, err, actorstore.ErrPoisoned)
				wantErr(t, err, kv.ErrUnknownOutcome)
				if code := Code(err); code == "full" {
					t.Errorf("the caller is told %q", code)
				}
				synctest.Wait()
				if n := r.call(lobby, "vars", nil); n != 1 {
					t.Errorf("then it has %d, want 1", n)
				}
				r.close()
			})
		})
	}
}

// TestMemoryOfLostLease: when the lease is over and the engine can't be reached, no turn
// tells what may be old, and another host has the actor.
func TestMemoryOfLostLease(t *testing.T) {
	for _, action := range memories {
		t.Run(action, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { memoryOfLostLease(t, action) })
		})
	}
}

func memoryOfLostLease(t *testing.T, action string) {
	base := memkv.New()
	cut := faultkv.New(base)
	var hosts [2]*Host
	for i, engine := range []kv.Engine{engines.Shared(cut), engines.Shared(base)} {
		h, err := Open(t.Context(), engine, []*Type{rememberer()}, &Options{Logger: quiet, IdleTimeout: time.Hour})
		must(t, err)
		hosts[i] = h
	}
	_, err := invoke[int](t.Context(), hosts[0], lobby, "add", nil)
	must(t, err)
	var away []*faultkv.Fault
	for _, p := range []faultkv.Point{faultkv.BeforeCommit, faultkv.BeforeGet} {
		away = append(away, cut.Fail(faultkv.Rule{Point: p, Times: faultkv.Forever}))
	}
	for n := 0; n == 0; {
		if n, err = invoke[int](t.Context(), hosts[1], lobby, "add", nil); err != nil {
			wantErr(t, err, actorstore.ErrInUse)
			pass(time.Second)
		}
	}
	_, err = invoke[int](t.Context(), hosts[0], lobby, action, nil)
	wantErr(t, err, actorstore.ErrLeaseLost)
	if code := Code(err); code != "unavailable" {
		t.Errorf("the caller is told %q", code)
	}
	for _, f := range away {
		f.Remove()
	}
	pass(time.Minute) // the first host finds out
	_, err = invoke[int](t.Context(), hosts[0], lobby, action, nil)
	wantErr(t, err, actorstore.ErrInUse)
	for _, h := range hosts {
		if err := h.Close(t.Context()); err != nil && !errors.Is(err, actorstore.ErrLeaseLost) {
			t.Error(err)
		}
	}
}
