package host

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
)

// TestDestroyWhileWaking: actors destroy themselves before they are awake. The call that created
// such an actor returns an error, and the host doesn't create it over and over.
func TestDestroyWhileWaking(t *testing.T) {
	var log []string
	kind := func(name string, create, wake bool) *Type {
		hook := func(what string, die bool) func(c *Context) error {
			return func(c *Context) error {
				log = append(log, what)
				if die {
					return c.Destroy()
				}
				return nil
			}
		}
		return &Type{
			Name: name, Actions: []AnyAction{newAdd()},
			Create: hook("create", create), Wake: hook("wake", wake), Destroy: hook("destroy", false),
		}
	}
	bubble(t, Options{}, func(r *rig) {
		for name, want := range map[string][]string{"stillborn": {"create", "destroy"}, "shy": {"create", "wake", "destroy"}} {
			log = nil
			a := Address{name, "lobby"}
			_, err := invoke[int](r.ctx, r.Host, a, "add", 1)
			wantErr(t, err, ErrNoActor)
			if !slices.Equal(log, want) {
				t.Errorf("%s: there was %q, want %q", name, log, want)
			}
			wantErr(t, r.Create(r.ctx, a, nil), ErrNoActor)
			wantErr(t, r.Destroy(r.ctx, a), ErrNoActor)
		}
		r.wantRows(0)
		for info, err := range r.Store().Actors(r.ctx, nil) {
			t.Errorf("%+v is left, %v", info, err)
		}
	}, kind("stillborn", true, false), kind("shy", false, true))
}

// TestGoexit has all that a type of actors may do end its goroutine. It fails like a
// panic, and the actor goes on.
func TestGoexit(t *testing.T) {
	var where atomic.Value // of string: once
	where.Store("")
	end := func(here string) {
		if where.CompareAndSwap(here, "") {
			runtime.Goexit()
		}
	}
	hook := func(here string) func(c *Context) error {
		return func(c *Context) error {
			if err := greenroom.Mutate(c, func(n *int) error { *n++; return nil }); err != nil {
				return err
			}
			end(here)
			return greenroom.SetState(c, 0)
		}
	}
	kind := thing(
		NewAction("add", func(c *Context, n int) (int, error) {
			c.AfterCommit(func() { end("after") })
			tx, err := c.SQL()
			if err != nil {
				return 0, err
			}
			if _, err := tx.ExecContext(c, "create table if not exists t(x)"); err != nil {
				return 0, err
			}
			err = greenroom.Mutate(c, func(total *int) error { *total += n; n = *total; return nil })
			end("action")
			return n, err
		}),
	)
	kind.Create, kind.Wake, kind.Sleep = hook("create"), hook("wake"), hook("sleep")
	kind.Vars = func(context.Context, Address) (any, error) { end("vars"); return nil, nil }
	kind.Run = func(ctx context.Context) error {
		if err := Turn(ctx, func(*Context) error { end("turn"); return nil }); err != nil {
			return err
		}
		end("run")
		return nil
	}
	for _, at := range []string{"create", "wake", "vars", "action"} {
		bubble(t, Options{}, func(r *rig) {
			where.Store(at)
			_, err := invoke[int](r.ctx, r.Host, lobby, "add", 1)
			wantErr(t, err, ErrPanic)
			if n := r.call(lobby, "add", 1); n != 1 {
				t.Errorf("%s: the state is %d", at, n)
			}
		}, kind)
	}
	for _, at := range []string{"turn", "run", "after", "sleep"} {
		bubble(t, Options{}, func(r *rig) {
			where.Store(at)
			r.call(lobby, "add", 1)
			if n := r.call(lobby, "add", 1); n != 2 {
				t.Errorf("%s: the state is %d", at, n)
			}
			pass(time.Minute)
			if s := r.Stats(); s.Awake != 0 || where.Load() != "" {
				t.Errorf("%s: %+v, and it has not ended there", at, s)
			}
			if n := r.call(lobby, "add", 1); n != 1 {
				t.Errorf("%s: the state is %d", at, n)
			}
		}, kind)
	}
}
