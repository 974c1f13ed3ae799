package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/batch"
)

// ReceiveOptions say what is received, and how. The zero value receives one message of
// any name, under a lease, and waits for it as long as the context lasts.
type ReceiveOptions struct {
	// Names are the names to choose from; none means all.
	Names []string
	// Count is the largest number of messages; 0 means 1. Fewer are returned as soon as
	// there is one: Receive doesn't wait for more. Nor are there more than fit into one commit,
	// unless they are staged: then the batch's owner may be told batch.ErrTooLarge.
	Count int
	// Timeout is how long Receive waits; 0 means as long as the context lasts. The other
	// methods ignore it.
	Timeout time.Duration
	// Visibility is how long the lease lasts; 0 means Options.Visibility.
	Visibility time.Duration
	// AtMostOnce removes the messages with the commit that hands them out: there is
	// nothing to complete, and if the receiver fails they are lost.
	AtMostOnce bool
}

// check returns o with the defaults put in.
func (o *ReceiveOptions) check(in *settings) (ReceiveOptions, error) {
	if o == nil {
		o = &ReceiveOptions{}
	}
	c := *o
	c.Count = cmp.Or(c.Count, 1)
	c.Visibility = cmp.Or(c.Visibility, in.opts.Visibility)
	if c.Count < 0 || c.Timeout < 0 || c.Visibility < time.Millisecond {
		return c, &InvalidError{What: whatOptions,
			Err: fmt.Errorf("count %d, timeout %v, visibility %v", c.Count, c.Timeout, c.Visibility)}
	}
	return c, nil
}

// Receive hands out the visible messages with the lowest ids, and waits until there is
// one. Nil opts are the zero ReceiveOptions. When the time is over it returns no message
// and no error; when the context is, its error. The messages are leased, or gone, by
// the time they are returned, in one durable commit.
func (q *Queue) Receive(ctx context.Context, opts *ReceiveOptions) ([]*Message, error) {
	o, err := opts.check(&q.settings)
	if err != nil {
		return nil, fmt.Errorf("queue: receive: %w", err)
	}
	msgs, err := q.receive(ctx, &o)
	if err != nil || len(msgs) > 0 {
		return msgs, err
	}
	var over <-chan time.Time
	if o.Timeout > 0 {
		over = time.After(o.Timeout)
	}
	err = q.await(ctx, o.Names, over, func() (found bool, err error) {
		msgs, err = q.receive(ctx, &o)
		return len(msgs) > 0, err
	})
	if err == errOver {
		err = nil
	}
	return msgs, err
}

// TryReceive is Receive without waiting: it returns no message when none is visible.
func (q *Queue) TryReceive(ctx context.Context, opts *ReceiveOptions) ([]*Message, error) {
	o, err := opts.check(&q.settings)
	if err != nil {
		return nil, fmt.Errorf("queue: receive: %w", err)
	}
	return q.receive(ctx, &o)
}

// receive commits nothing when it finds no message.
func (q *Queue) receive(ctx context.Context, o *ReceiveOptions) (msgs []*Message, err error) {
	if err := errors.Join(ctx.Err(), q.check(ctx)); err != nil {
		return nil, err
	}
	q.mu.Lock()
	q.due()
	none := q.index.first(o.Names) == nil
	q.mu.Unlock()
	if none {
		return nil, nil
	}
	for some := *o; ; some.Count = len(msgs) / 2 {
		err = q.commit(ctx, func(tx *Tx) error {
			msgs, err = tx.receive(ctx, &some)
			return err
		})
		if err == nil {
			return msgs, nil
		}
		// What fits depends on the engine, too, and only a commit knows.
		if len(msgs) < 2 || !errors.Is(err, batch.ErrTooLarge) {
			return nil, err
		}
	}
}

// All yields messages one after the other, each when the one before is settled, and
// waits for them. It is Receive of one message at a time: a Count above 1 is an
// *InvalidError. With a Timeout it ends when none came for so long.
//
// It ends quietly when the queue is closed or the context is over. Any other error is
// yielded once, and ends it: ErrPrevious when the consumer goes on while the lease of the
// message before is his and no batch is about to settle it.
func (q *Queue) All(ctx context.Context, opts *ReceiveOptions) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		o := ReceiveOptions{}
		if opts != nil {
			o = *opts
		}
		if o.Count > 1 {
			yield(nil, &InvalidError{What: whatOptions, Err: fmt.Errorf("count %d, and All receives one at a time", o.Count)})
			return
		}
		for {
			msgs, err := q.Receive(ctx, &o)
			switch {
			case err != nil && !q.ended(ctx, err):
				yield(nil, err)
				return
			case err != nil || len(msgs) == 0:
				return
			case !yield(msgs[0], nil):
				return
			}
			if q.holds(msgs[0]) {
				yield(nil, ErrPrevious)
				return
			}
		}
	}
}
