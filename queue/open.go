package queue

import (
	"context"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
)

// Open reads the queue of an actor; nil opts are the zero Options. It writes nothing.
// There can be one Queue of an actor at a time: another is actorstore.ErrKept. It must be
// closed before the actor is.
//
// The queue's metadata are rebuilt in memory if they are missing, damaged, or behind the
// messages: an id is never given twice, and they are stored right with the next commit.
// Messages that can't be read are left where they are: see Quarantined.
func Open(ctx context.Context, a *actorstore.Actor, opts *Options) (*Queue, error) {
	q := &Queue{}
	q.actor, q.bell.of = a, &q.contents
	if opts != nil {
		q.opts = *opts
	}
	if err := q.settings.init(); err != nil {
		return nil, fmt.Errorf("queue: open: %w", err)
	}
	free, err := a.Keep(actorstore.NamespaceQueue)
	if err != nil {
		return nil, fmt.Errorf("queue: open: %w", err)
	}
	q.free = free
	q.contents.init()
	if err := q.load(ctx); err != nil {
		free()
		return nil, fmt.Errorf("queue: open: %w", err)
	}
	q.ctx, q.cancel = context.WithCancel(context.WithoutCancel(ctx))
	q.bell.source = q.clock.Lasting("queue", q.ring)
	q.bell.arm()
	return q, nil
}

// Close ends the queue, not the actor. A call that waits for a message or an answer
// gets ErrClosed, and what is staged can't be committed any more; Close waits for commits of it
// that are under way. What is stored and due later goes on counting in Options.Clock, so
// that the program that puts the actor to sleep knows when it must be awake. A second Close returns
// when the first is over. Participants of a batch must not call it.
func (q *Queue) Close() error {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.closing)
	}
	q.mu.Unlock()
	q.cancel()
	_ = q.works.Close(context.Background()) // which doesn't give up
	q.end.Do(func() {
		q.bell.arm()
		q.bell.source.Close()
		if q.ownClock {
			q.clock.Close()
		}
		q.free()
	})
	return nil
}
