package admin

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// A Runner is Actors whose code the process runs. A host.Host is one.
type Runner interface {
	Actors
	// Store returns the store through which the process runs the actors.
	Store() *greenroom.Store
	Metered
	// Wake wakes an actor; see host.Host.Wake.
	Wake(ctx context.Context, id actorstore.ID) error
	// Sleep puts an actor to sleep when it has nothing to do; see host.Host.Sleep.
	Sleep(ctx context.Context, id actorstore.ID) error
	// Disconnect ends a connection of an actor; see host.Host.Disconnect.
	Disconnect(ctx context.Context, id actorstore.ID, c conn.ID, reason string) error
}

// Metered are Actors some of which are awake in the process. A Runner is such, and a rivetkit/engine.Engine has what it takes.
type Metered interface {
	// Usage returns what the actors that are awake have used and the store doesn't say yet; see host.Host.Usage.
	Usage() []actorstore.ActorUsage
}

// run calls fn with what runs the actors of on, and the id of one of them. The error is ErrUnsupported if nothing does.
func (on On) run(ctx context.Context, actor string, fn func(r Runner, id actorstore.ID) error) error {
	r, ok := on.Actors.(Runner)
	if !ok {
		return say(errkind.ErrUnsupported, "no process runs the actors of this store in a host")
	}
	id, err := idOf(ctx, on.Store, actor)
	if err != nil {
		return err
	}
	if err := fn(r, id); err != nil {
		return say(err, "the actor %s: %s", actor, strings.TrimPrefix(err.Error(), "host: "))
	}
	return nil
}

// Wake wakes an actor, so that it does what is due.
var Wake = quiet("wake", "Wake the actor, so that it does what is due. The answer comes when it is awake.", wake)

func wake(ctx context.Context, on On, actor string, _ *None) error {
	return on.run(ctx, actor, func(r Runner, id actorstore.ID) error { return r.Wake(ctx, id) })
}

// Sleep puts an actor to sleep that has nothing to do.
var Sleep = quiet(
	"sleep", "Put the actor to sleep, as soon as it has no turns and no running steps; what comes later wakes it. The answer comes when it has left "+
		"memory. It is in_use if connections keep the actor awake, or turns and steps for more than 10 seconds.", sleep,
)

// sleepTime is how long Sleep waits for turns and steps.
const sleepTime = 10 * time.Second

func sleep(ctx context.Context, on On, actor string, _ *None) error {
	ctx, cancel := context.WithTimeout(ctx, sleepTime)
	defer cancel()
	return on.run(ctx, actor, func(r Runner, id actorstore.ID) error { return r.Sleep(ctx, id) })
}

// Disconnect ends a connection, as if its client had gone.
var Disconnect = quiet(
	"connections/disconnect", "End a connection as if its client had gone: the actor is woken if it sleeps, and its code is told.", disconnect,
)

// DisconnectIn is the request of Disconnect.
type DisconnectIn struct {
	ID     string `json:"id"`               // as ParseBytes reads it
	Reason string `json:"reason,omitempty"` // what the client and the actor's code are told; "disconnected by a tool" unless it is set
}

func disconnect(ctx context.Context, on On, actor string, in *DisconnectIn) error {
	c, err := ParseBytes(in.ID, "id")
	if err != nil {
		return err
	}
	reason := cmp.Or(in.Reason, "disconnected by a tool")
	return on.run(ctx, actor, func(r Runner, id actorstore.ID) error { return r.Disconnect(ctx, id, conn.ID(c), reason) })
}
