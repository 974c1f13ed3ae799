package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/workflow"
)

// A Call is one call of an action.
type Call struct {
	Actor  Address
	Action string
	Args   Raw
	// Conn is the connection through which the call comes, "" for none. An actor
	// without it is not called: ErrNoConn.
	Conn conn.ID
	// Existing refuses to create the actor: ErrNoActor.
	Existing bool
	// IdempotencyKey makes the call land at most once, however often it is made: "" for none, or 1 to 128 bytes of
	// printable ASCII, which the caller makes up for this call of this actor; otherwise Do returns ErrIdempotencyKey.
	// If the action returns nil, the commit of its turn stores its result. A later call with the key gets that
	// result, when it is durable, and the action isn't run; if its action, its arguments (byte by byte) or its
	// Caller.ID are not the same, it gets ErrIdempotencyMismatch. After an error nothing is stored, and a later call
	// runs the action again.
	//
	// An actor has the results of 24 hours, and at most of the newest 1000 calls with keys. Later calls with keys
	// remove older ones. Results count as part of what the actor stores. One that is larger than a value may be
	// (batch.Limits.ValueSize, less 32 bytes) is batch.ErrValueTooLarge, and nothing lands. They are there as
	// long as what the turn has done: after a restart or a crash, and in a fork; an earlier state of the actor that is
	// restored has those of its time, and an actor that is created after it was destroyed has none.
	IdempotencyKey string
	// Replayed, if it is not nil, is where Do says whether the result is one that was stored by a call before. Do sets it unless it
	// returns an error.
	Replayed *bool
	// Trace and Span are the caller's span, of which that of the turn is a child. A zero
	// Trace means that the caller has no span.
	Trace traces.TraceID
	Span  traces.SpanID
}

// Do calls an action by its name and returns its result, when what it did is durable: for
// callers that have both from elsewhere. In Go, an Action calls itself. An actor that
// doesn't exist is created, but of a type with MustCreate. A caller that has got ErrUnknownOutcome, or no answer, may
// safely make a call with an IdempotencyKey again.
//
// The context has the caller: see WithCaller. A turn must not wait for itself. A call of the turn's own actor is greenroom.ErrNested, and
// so is one of an actor that waits for the caller: A calls B, which calls A. A turn that calls is
// known by its goroutine, whatever the context. On a goroutine that it has started, the context must be that of
// the turn, or one that is made from it: with another one a circle waits until that ends.
//
// Errors: what the action returns, and then nothing of the turn has landed; ErrNoType,
// ErrAddress, ErrNoAction, ErrNoActor, ErrNoConn, ErrArgs, ErrIdempotencyKey,
// ErrIdempotencyMismatch, ErrPanic, ErrOverloaded, ErrClosed; *actorstore.InUseError; the context's, if the turn had not begun; those of
// the commit, such as actorstore.ErrQuota. With all of them nothing has landed.
// ErrUnknownOutcome leaves it open.
func (h *Host) Do(ctx context.Context, call *Call) (result Raw, err error) {
	far, err := h.ask(ctx, call.Actor, call.say, func(ctx context.Context) (err error) {
		result, err = call.do(ctx, h)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case far != nil:
		if call.Replayed != nil {
			*call.Replayed = far.Replayed
		}
		return far.Result, nil
	}
	return result, nil
}

// do is Host.Do at this host.
func (call *Call) do(ctx context.Context, h *Host) (Raw, error) {
	kind := h.kind(call.Actor.Type)
	if kind == nil {
		return nil, fmt.Errorf("%w: %.80q", ErrNoType, call.Actor.Type)
	}
	if kind.handler(call.Action) == nil && !h.keeps(kind, call) {
		return nil, fmt.Errorf("%w: %.80q", ErrNoAction, call.Action)
	}
	fn := func(c *Context, args Raw) (Raw, error) {
		fn := c.life.kind.handler(call.Action) // of the version that it woke with
		if fn == nil {
			return nil, fmt.Errorf("%w: %.80q", ErrNoAction, call.Action)
		}
		return fn(c, args)
	}
	if err := wellformed(call.Args); err != nil {
		return nil, &argsError{action: call.Action, err: err}
	}
	idempotent, err := newIdempotentCall(ctx, call, fn)
	if err != nil {
		return nil, err
	}
	run := idempotent.or(fn)
	b := &birth{}
	if call.Existing || call.Conn != "" {
		b = nil
	}
	var result Raw
	t := newTurn("", func(c *Context) (err error) {
		if call.Conn != "" && c.Conn() == nil {
			return ErrNoConn
		}
		result, err = run(c, call.Args)
		return err
	})
	t.turnOrigin = turnOrigin{conn: call.Conn, from: CallerOf(ctx), action: call.Action, trace: call.Trace, above: call.Span}
	if l := h.life(call.Actor.String()); l != nil {
		kind = l.kind // the version that it woke with
	}
	g, err := (&member{host: h, addr: call.Actor, birth: b, turn: t}).joins(kind, call.Action, call.Args)
	refused := err
	switch {
	case err != nil:
	case g != nil:
		err = g.run(ctx)
		refused = g.refused
	default:
		err = h.turn(ctx, call.Actor, b, t)
	}
	if refused != nil && idempotent != nil {
		result, err = idempotent.recall(ctx, h, call, refused)
	}
	if err != nil {
		return nil, err
	}
	idempotent.tell(call)
	return result, nil
}

// MaxTogether is of how many actors one turn is at most.
const MaxTogether = greenroom.MaxTogether

// Together runs fn in one turn of several actors: what it writes to all of them lands by one commit when fn returns nil,
// and nothing of it otherwise. cs are the Contexts of the actors, in the order of actors; everything that a turn does
// works in each. What leaves does so when the commit is durable, and so does Together return. Actors that don't exist are created, but of a type with
// MustCreate; they stay if fn fails.
//
// All actors are woken first. Then their turns are taken in the order of their ids, each behind those that wait for its actor already, so calls of Together
// don't wait for each other in a circle. fn must not call other actors: they may wait for these. Turns that are taken wait for the others no longer than
// half of Options.TurnTimeout: then nothing is run, and the error is context.DeadlineExceeded and names the actor that couldn't be had. The transaction
// must fit into one commit of the engine, with the pages that it changes: a larger one is batch.ErrTooLarge. The actors must be
// of one host: one that another host has is an *actorstore.InUseError, which says where it is.
//
// Errors: those of Host.Do, and greenroom.ErrNested in a turn: that of any actor might be waited for by one of actors. ErrAddress says that the actors are none, more than MaxTogether, or
// the same.
func Together(ctx context.Context, h *Host, actors []Address, fn func(cs []*Context) error) error {
	t := newTurn(spanTogether, func(c *Context) error { return fn(slices.Concat([]*Context{c}, c.others)) })
	t.from = CallerOf(ctx)
	if len(actors) == 0 {
		return errTogether
	}
	g, err := (&member{host: h, addr: actors[0], birth: &birth{}, turn: t}).coordinate(actors[1:])
	if err != nil {
		return err
	}
	return g.run(ctx)
}

var errTogether = fmt.Errorf("%w: a turn is of 1 to %d different actors", ErrAddress, MaxTogether)

// Create creates an actor with an input, which its code finds with Context.Input. One that
// exists keeps the input that it has; then, too, the error is nil. If Type.Create fails
// the actor doesn't exist, and the error is that of Type.Create.
func (h *Host) Create(ctx context.Context, a Address, input any) error {
	in, err := Encode(input)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrArgs, err)
	}
	say := func() (*request, error) { return &request{Kind: requestCreate, Actor: a, Args: in}, nil }
	_, err = h.ask(ctx, a, say, func(ctx context.Context) error {
		return h.turn(ctx, a, &birth{input: in, asked: true}, newTurn("actor.create", func(*Context) error { return nil }))
	})
	return err
}

// Send puts a message into an actor's queue, which wakes it, and returns its ID when it is
// durable. An actor that doesn't exist is created, but of a type with MustCreate. Errors are those of Do, and of
// queue.Queue.Enqueue.
func (h *Host) Send(ctx context.Context, a Address, s queue.Send) (id queue.ID, err error) {
	if r, ok := s.Body.(Raw); ok {
		s.Body = queue.Raw(r)
	}
	far, err := h.ask(ctx, a, func() (*request, error) { return saySend(a, &s) }, func(ctx context.Context) error {
		return h.turn(ctx, a, &birth{}, newTurn("actor.send", func(c *Context) (err error) {
			id, err = c.Enqueue(s)
			return err
		}))
	})
	if err = cmp.Or(err, far.result((*uint64)(&id))); err != nil {
		return 0, err
	}
	return id, nil
}

// StartWorkflow starts the workflow of an actor, and says, when that is durable, whether it wasn't started before: the address is its id, so that what has an id of its own, such as an
// order or a request, is started once however often it is asked for. One that was started keeps the input that it has, also if it is over by now. An actor that doesn't exist is created, but of
// a type with MustCreate. Errors are those of Do, and ErrNoWorkflow.
func (h *Host) StartWorkflow(ctx context.Context, a Address, input any) (fresh bool, err error) {
	in, err := Encode(input)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrArgs, err)
	}
	var asked bool
	say := func() (*request, error) { return &request{Kind: requestStart, Actor: a, Args: in}, nil }
	far, err := h.ask(ctx, a, say, func(ctx context.Context) error {
		return h.turn(ctx, a, &birth{}, newTurn("actor.start", func(c *Context) (err error) {
			asked, err = c.life.workflow.ask(c, in, false)
			if errors.Is(err, workflow.ErrOver) {
				return nil
			}
			return err
		}))
	})
	err = cmp.Or(err, far.result(&asked))
	return asked && err == nil, err
}

// Destroy removes an actor with everything in it, after Type.Destroy agreed;
// its connections are closed. Without such an actor it returns ErrNoActor.
func (h *Host) Destroy(ctx context.Context, a Address) error {
	say := func() (*request, error) { return &request{Kind: requestDestroy, Actor: a}, nil }
	_, err := h.ask(ctx, a, say, func(ctx context.Context) error {
		return h.turn(ctx, a, nil, newTurn(spanOnDestroy, (*Context).Destroy))
	})
	return err
}

// Visit runs fn with an actor that exists, for tools that act from outside of its code: with the actor as it is in
// memory, beside its turns, each Update between two of these; or, if it sleeps, with one that is open for the call
// alone, and calls for the actor wait for the end of it. The context of fn ends with ctx, and when the actor is lost or removed. None of the actor's code is run for the visit: what fn stores in an actor that
// sleeps wakes it afterwards, if there is something to do. fn must not close the actor.
//
// Errors: fn's; greenroom.ErrNotFound, of an actor that does not exist; greenroom.ErrInUse, if another host has it;
// ErrClosed; greenroom.ErrNested in a turn of the actor; those of the engine.
func (h *Host) Visit(ctx context.Context, id actorstore.ID, fn func(ctx context.Context, a *greenroom.Actor) error) error {
	l, done, err := visitor{h}.claim(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	if l != nil { // which leaves memory when the visit is over
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.ctx, cancel)()
	}
	return h.door.Visit(ctx, id, fn)
}

// DropID removes an actor with everything in it, without asking its code: Destroy does. Its connections are closed. Errors: those of Visit and
// Destroy.
func (h *Host) DropID(ctx context.Context, id actorstore.ID) error {
	l, done, err := visitor{h}.claim(ctx, id)
	if err != nil {
		return err
	}
	if l == nil {
		defer done()
		return h.door.DropID(ctx, id)
	}
	done() // the actor leaves memory when it has no users
	return h.turn(ctx, l.addr, nil, newTurn(spanOnDestroy, func(c *Context) error {
		c.destroy = true
		return nil
	}))
}

// RestoreID makes an actor what it was in an earlier state, as greenroom.Store.RestoreID does, of the backup of the host's engine. An actor that is awake
// leaves memory first, when its turns have ended; its code isn't asked. Its connections are closed.
//
// Errors: those of greenroom.Store.Restore and of Visit.
func (h *Host) RestoreID(ctx context.Context, id actorstore.ID, to archive.Bookmark, opts *greenroom.RestoreOptions) (*greenroom.Restored, error) {
	if archive.Of(h.engine) == nil {
		return h.door.RestoreID(ctx, id, to, opts) // which says so
	}
	a, err := visitor{h}.find(ctx, id)
	if errors.Is(err, greenroom.ErrNotFound) {
		a, err = visitor{h}.was(ctx, id, to)
	}
	if errors.Is(err, ErrNoType) {
		return h.door.RestoreID(ctx, id, to, opts)
	}
	if err != nil {
		return nil, err
	}
	l, isAwake, err := visitor{h}.place(ctx, a, a.String(), byUser)
	if err != nil {
		return nil, err
	}
	wakes := opts != nil && opts.Wake
	if !isAwake {
		defer visitor{h}.release(l)
		h.alarms.Forget(l.name) // what is due then it hears when the actor is closed
		r, err := h.door.RestoreID(ctx, id, to, opts)
		if err == nil {
			l.restored = !wakes
			h.away.drop(l.name, restoredReason)
		}
		return r, err
	}
	l.leave()                   // the actor leaves memory when it has no users
	var got *greenroom.Restored // which is not looked at if the caller doesn't wait
	err = h.turn(ctx, a, nil, newTurn("actor.restore", func(c *Context) error {
		c.destroy, c.restore = true, func() (err error) {
			got, err = c.life.door.Restore(ctx, to, opts)
			c.life.restored = err == nil && !wakes
			return err
		}
		return nil
	}))
	if err != nil {
		return nil, err
	}
	return got, nil
}

// Wake wakes an actor that exists, so that it does what is due, and returns when it is awake: at once if it is that already. It sleeps
// again as it does after a call.
//
// Errors: greenroom.ErrNotFound, of an actor that does not exist; ErrNoType, of one that is not of h's types; those of Do of an actor that
// can't wake.
func (h *Host) Wake(ctx context.Context, id actorstore.ID) error {
	a, err := visitor{h}.find(ctx, id)
	if err != nil {
		return err
	}
	l, err := h.enter(ctx, a, nil, byUser)
	if err != nil {
		return err
	}
	l.leave()
	return nil
}

// Sleep puts an actor to sleep as soon as it has no turns and no running steps, without waiting for Options.IdleTimeout, and returns when it
// has left memory; at once if it sleeps. What comes later wakes it again. Turns and steps are waited for as the context says; calls that never
// cease keep the actor awake.
//
// Errors: *AwakeError, if connections hold the actor, or if the context ends before the actor's turns and steps do; greenroom.ErrNotFound
// and ErrNoType, as those of Wake; greenroom.ErrNested in a turn of the actor.
func (h *Host) Sleep(ctx context.Context, id actorstore.ID) error {
	a, err := visitor{h}.find(ctx, id)
	if err != nil {
		return err
	}
	return visitor{h}.sleep(ctx, a.String())
}
