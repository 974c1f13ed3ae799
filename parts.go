package greenroom

import (
	"context"
	"errors"

	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/vfs"
)

// open returns a part of an actor, and opens it when it is first asked for.
func open[T any](a *Actor, part **T, fn func() (*T, error)) (*T, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, ErrClosed
	}
	if *part == nil {
		p, err := fn()
		if err != nil {
			return nil, err
		}
		*part = p
	}
	return *part, nil
}

// database returns the actor's database.
func (a *Actor) database(ctx context.Context) (*vfs.DB, error) {
	return open(a, &a.db, func() (*vfs.DB, error) { return vfs.Open(ctx, a.actor, a.opts.DB.options(a)) })
}

// Queue returns the actor's queue, for what is not part of an Update: waiting for messages
// and answers, lists and counts. Actor.Close closes it, as it does the other parts: the caller
// must not.
func (a *Actor) Queue(ctx context.Context) (*queue.Queue, error) {
	return open(a, &a.queue, func() (*queue.Queue, error) { return queue.Open(ctx, a.actor, a.opts.Queue.options(a)) })
}

// Record returns what holds the actor's state, its input and its schedule. It is stored by
// the first commit that changes it.
func (a *Actor) Record(ctx context.Context) (*persist.Record, error) {
	return open(a, &a.record, func() (*persist.Record, error) {
		return persist.Open(ctx, a.actor, &persist.Options{
			Create: a.opts.Create, CreateLate: true, Input: a.opts.Input,
			Clock: a.clock, Logger: a.log, Metrics: a.store.opts.Metrics,
		})
	})
}

// Connections returns the actor's connections.
func (a *Actor) Connections(ctx context.Context) (*conn.Set, error) {
	return open(a, &a.conns, func() (*conn.Set, error) {
		return conn.Open(ctx, a.actor, &conn.Options{Logger: a.log, Metrics: a.store.opts.Metrics})
	})
}

// Traces returns the actor's spans, for recording and reading: ErrUnsupported without
// ActorOptions.Traces.
func (a *Actor) Traces(ctx context.Context) (*traces.Traces, error) {
	if a.opts.Traces == nil {
		return nil, ErrUnsupported
	}
	return open(a, &a.traces, func() (*traces.Traces, error) { return traces.Open(ctx, a.actor, a.opts.Traces.options(a)) })
}

// shut closes the parts, those first that may be at work and need the others for it, calls
// last, and closes the actor.
func (a *Actor) shut(last func() error) error {
	a.mu.Lock()
	a.closed = true
	record, conns, recorded, messages, db, refused := a.record, a.conns, a.traces, a.queue, a.db, a.refused
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
