package host

import (
	"context"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// A call that waits for the turn that makes it is refused, and doesn't block the actor or the host.
func TestNestedCall(t *testing.T) {
	var r, other *rig
	var a, b *Action[string, string]
	contexts := map[string]func(c *Context) context.Context{
		"own":        func(c *Context) context.Context { return c },
		"made of it": func(c *Context) context.Context { return context.WithValue(c, lifeKey{}, 1) },
		"background": func(*Context) context.Context { return context.Background() },
	}
	self := func(c *Context, how string) (string, error) {
		return a.Call(contexts[how](c), r.Host, c.Address().Key, "stop")
	}
	a = NewAction("a", func(c *Context, how string) (string, error) {
		switch how {
		case "stop":
			return "", nil
		case "circle":
			return b.Call(c, r.Host, "b", c.Address().Key)
		case "other":
			return b.Call(c, r.Host, "b", "another")
		case "circle without contexts":
			return b.Call(context.Background(), r.Host, "without", c.Address().Key)
		case "circle of two hosts":
			return b.Call(context.Background(), other.Host, "without", c.Address().Key)
		case "goroutine":
			done := make(chan error)
			go func() { _, err := a.Call(c, r.Host, c.Address().Key, "stop"); done <- err }()
			return "", <-done
		case "close":
			return "", r.Host.Close(context.Background())
		case "destroy":
			return "", r.Destroy(context.Background(), c.Address())
		}
		return self(c, how)
	})
	b = NewAction("b", func(c *Context, key string) (string, error) {
		how := "own"
		if c.Address().Key == "without" {
			how = "background"
		}
		return a.Call(contexts[how](c), r.Host, key, "stop")
	})
	var inWake string
	kind := &Type{Name: "a", Actions: []AnyAction{a}, Wake: func(c *Context) error {
		if c.Address().Key == "waking" {
			_, err := self(c, inWake)
			return err
		}
		return nil
	}}
	kinds := []*Type{kind, {Name: "b", Actions: []AnyAction{b}}}
	r, other = newRig(t, Options{}, kinds...), newRig(t, Options{}, kinds...)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(time.Second))
	defer cancel()
	for _, how := range []string{"own", "made of it", "background", "goroutine", "circle", "circle without contexts", "circle of two hosts", "close", "destroy"} {
		t.Run(how, func(t *testing.T) {
			_, err := a.Call(ctx, r.Host, "x", how)
			wantErr(t, err, greenroom.ErrNested)
		})
	}
	for _, inWake = range []string{"own", "background"} {
		_, err := a.Call(ctx, r.Host, "waking", "stop")
		wantErr(t, err, greenroom.ErrNested)
	}
	// What doesn't wait for itself goes on.
	_, err := a.Call(ctx, r.Host, "x", "other")
	must(t, err)
	other.close()
	must(t, r.Host.Close(ctx))
}

// The context of a turn that is over keeps nothing from its actor.
func TestNestedOver(t *testing.T) {
	var kept context.Context
	keep := NewCommand("keep", func(c *Context, _ struct{}) error { kept = context.WithoutCancel(c); return nil })
	r := newRig(t, Options{}, &Type{Name: "a", Actions: []AnyAction{keep}})
	must(t, keep.Call(t.Context(), r.Host, "x", struct{}{}))
	must(t, keep.Call(kept, r.Host, "x", struct{}{}))
	r.close()
}

// Turn is refused in a turn of the actor, also of a context that Run had.
func TestNestedTurn(t *testing.T) {
	running := make(chan context.Context, 1)
	turn := NewCommand("turn", func(c *Context, _ struct{}) error {
		ctx := <-running
		running <- ctx
		return Turn(ctx, func(*Context) error { return nil })
	})
	r := newRig(t, Options{}, &Type{Name: "a", Actions: []AnyAction{turn}, Run: func(ctx context.Context) error {
		running <- ctx
		<-ctx.Done()
		return nil
	}})
	wantErr(t, turn.Call(t.Context(), r.Host, "x", struct{}{}), greenroom.ErrNested)
	r.close()
}
