package greenroom

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/rivettables"
	"github.com/greenroomdb/greenroom/part"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/workflow"
)

// A lazy part of an actor is opened when it is first asked for. Actor.mu guards it.
type lazy[T any] struct {
	open    *T       // nil until it is open
	opening *opening // nil unless a call opens it
}

// An opening is a call that opens a part.
type opening struct {
	done   chan struct{}      // closed when the call has ended
	cancel context.CancelFunc // ends the call's context
}

// opened returns a part of an actor, and opens it when it is first asked for. Of several calls one opens the part, and
// others wait for that until their contexts end. The context of fn ends with ctx, and when the actor is shut.
func opened[T any](ctx context.Context, a *Actor, p *lazy[T], fn func(ctx context.Context) (*T, error)) (*T, error) {
	for {
		a.mu.Lock()
		switch {
		case a.closed:
			a.mu.Unlock()
			return nil, ErrClosed
		case p.open != nil:
			defer a.mu.Unlock()
			return p.open, nil
		case p.opening == nil:
			ctx, cancel := context.WithCancel(ctx)
			p.opening = &opening{make(chan struct{}), cancel}
			a.mu.Unlock()
			return p.make(ctx, a, fn)
		}
		wait := p.opening.done
		a.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, fmt.Errorf("greenroom: open a part of %q: %w", a.Name(), ctx.Err())
		}
	}
}

// make opens p. If fn panics, or ends its goroutine, p is as before, and the next call opens it.
func (p *lazy[T]) make(ctx context.Context, a *Actor, fn func(ctx context.Context) (*T, error)) (open *T, err error) {
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		p.opening.cancel()
		close(p.opening.done)
		p.opening, p.open = nil, open
		if err != nil && a.closed {
			err = errors.Join(ErrClosed, err)
		}
	}()
	return fn(ctx)
}

// database returns the actor's database.
func (a *Actor) database(ctx context.Context) (*vfs.DB, error) {
	return opened(ctx, a, &a.db, func(ctx context.Context) (*vfs.DB, error) { return vfs.Open(ctx, a.actor, dbOptions(a.opts.DB, a)) })
}

// Queue returns the actor's queue, for what is not part of an Update: waiting for messages
// and answers, lists and counts. Actor.Close closes it, as it does the other parts: the caller
// must not.
func (a *Actor) Queue(ctx context.Context) (*queue.Queue, error) {
	return opened(ctx, a, &a.queue, func(ctx context.Context) (*queue.Queue, error) {
		if err := ofProgram(ctx, a.actor); err != nil {
			return nil, err
		}
		return queue.Open(ctx, a.actor, queueOptions(a.opts.Queue, a))
	})
}

// Record returns what holds the actor's state, its input and its schedule. It is stored by
// the first commit that changes it.
func (a *Actor) Record(ctx context.Context) (*persist.Record, error) {
	return opened(ctx, a, &a.record, func(ctx context.Context) (*persist.Record, error) {
		if err := ofProgram(ctx, a.actor); err != nil {
			return nil, err
		}
		return persist.Open(ctx, a.actor, &persist.Options{
			Create: a.opts.Create, CreateLate: true, Input: a.opts.Input,
			Env: partEnv(a.log, a),
		})
	})
}

// Connections returns the actor's connections.
func (a *Actor) Connections(ctx context.Context) (*conn.Set, error) {
	return opened(ctx, a, &a.conns, func(ctx context.Context) (*conn.Set, error) {
		if err := ofProgram(ctx, a.actor); err != nil {
			return nil, err
		}
		return conn.Open(ctx, a.actor, &conn.Options{Env: partEnv(a.log, a)})
	})
}

// Traces returns the actor's spans, for recording and reading: ErrUnsupported without
// ActorOptions.Traces.
func (a *Actor) Traces(ctx context.Context) (*traces.Traces, error) {
	if a.opts.Traces == nil {
		return nil, ErrUnsupported
	}
	return opened(ctx, a, &a.traces, func(ctx context.Context) (*traces.Traces, error) {
		return traces.Open(ctx, a.actor, tracesOptions(a.opts.Traces, a))
	})
}

// ControlWorkflow runs fn with the workflow of the actor, to look at it and to control it: with the one that is open, or with one
// without its code, which can't be run. What fn does to it is on stable storage when its methods return. fn must not
// close the Workflow, nor keep it.
//
// Errors: fn's; ErrClosed; those of workflow.Attach, such as actorstore.ErrKept beside another call.
func (a *Actor) ControlWorkflow(ctx context.Context, fn func(w *workflow.Workflow) error) error {
	if w := a.workflow.Load(); w != nil {
		return fn(w)
	}
	q, err := a.Queue(ctx)
	if err != nil {
		return err
	}
	o := workflow.Options{Queue: q}
	o.Env = partEnv(a.log, a)
	w, err := workflow.Attach(ctx, a.actor, &o)
	if err != nil {
		return err
	}
	return errors.Join(fn(w), w.Close())
}

// shut closes the parts, those first that may be at work and need the others for it, calls
// last, and closes the actor.
func (a *Actor) shut(last func() error) error {
	a.mu.Lock()
	a.closed = true
	openings := []*opening{a.record.opening, a.conns.opening, a.traces.opening, a.queue.opening, a.db.opening}
	a.mu.Unlock()
	for _, o := range openings {
		if o != nil {
			o.cancel()
			<-o.done
		}
	}
	a.mu.Lock()
	record, conns, recorded, messages, db, refused := a.record.open, a.conns.open, a.traces.open, a.queue.open, a.db.open, a.refused
	a.mu.Unlock()
	ctx := context.Background()
	var parts []func() error
	if record != nil {
		parts = append(parts, func() error { return record.Close(ctx) })
	}
	if conns != nil {
		parts = append(parts, func() error { return conns.Close(ctx) })
	}
	if recorded != nil {
		parts = append(parts, func() error { return recorded.Close(ctx) })
	}
	if messages != nil {
		parts = append(parts, messages.Close)
	}
	if db != nil {
		parts = append(parts, db.Close)
	}
	if refused != nil {
		parts = append(parts, refused.Close)
	}
	var lost error
	for _, end := range parts {
		switch err := end(); {
		case errors.Is(err, vfs.ErrBusy):
			return err
		case a.actor.Err() == nil: // else it can't store what it has, and says so
			lost = errors.Join(lost, err)
		}
	}
	a.clock.Close()
	return errors.Join(lost, last(), a.actor.Close())
}

// dbOptions returns the options of the database of a. They are made when a part is opened, since most actors leave most
// parts alone.
func dbOptions(o *DBOptions, a *Actor) *vfs.Options {
	d := orZero(o)
	d.Env, d.MayWrite, d.Pragmas = partEnv(a.log, a), a.outside, slices.Clone(d.Pragmas)
	return &d
}

// queueOptions returns the options of the queue of a.
func queueOptions(o *QueueOptions, a *Actor) *queue.Options {
	d := orZero(o)
	d.Env = partEnv(a.log, a)
	return &d
}

// tracesOptions returns the options of the spans of a.
func tracesOptions(o *TracesOptions, a *Actor) *traces.Options {
	d := orZero(o)
	d.Env = partEnv(a.log, a)
	return &d
}

// partEnv returns what the parts of a share, with their logger.
func partEnv(log *slog.Logger, a *Actor) part.Env {
	return part.Env{Clock: a.clock, Logger: log, Metrics: a.store.opts.Metrics}
}

// ErrProgram: the actor's program keeps this in tables of its database, as those of RivetKit 2.3 do, and alone writes it.
var ErrProgram = errkind.New("greenroom: the actor's program alone writes this, in its database", errkind.ErrUnsupported)

// ofProgram returns ErrProgram of an actor of RivetKit 2.3. It costs other actors nothing.
func ofProgram(ctx context.Context, a *actorstore.Actor) error {
	has, err := rivettables.HasPages(ctx, a)
	if has {
		err = ErrProgram
	}
	return err
}
