package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/batch"
)

// Receive hands out the first visible messages, by priority and then by id, and waits until there is
// one, or, with ReceiveOptions.Linger, until there are more. Nil opts are the zero ReceiveOptions. When the time is over it returns no message
// and no error; when the context is, its error. The messages are leased, or gone, by
// the time they are returned, in one durable commit.
func (q *Queue) Receive(ctx context.Context, opts *ReceiveOptions) ([]*Message, error) {
	o, err := opts.check(&q.settings)
	if err != nil {
		return nil, fmt.Errorf("queue: receive: %w", err)
	}
	if o.Linger > 0 {
		return q.receiveGathered(ctx, &o)
	}
	msgs, err := q.receive(ctx, &o)
	if err != nil || len(msgs) > 0 {
		return msgs, err
	}
	var over <-chan time.Time
	if o.Timeout > 0 {
		over = time.After(o.Timeout)
	}
	err = q.watch(ctx, o.Names, over, func() (found bool, err error) {
		msgs, err = q.receive(ctx, &o)
		return len(msgs) > 0, err
	})
	if err == errOver {
		err = nil
	}
	return msgs, err
}

// receiveGathered is Receive with a Linger.
func (q *Queue) receiveGathered(ctx context.Context, o *ReceiveOptions) ([]*Message, error) {
	var end time.Time
	if o.Timeout > 0 {
		end = time.Now().Add(min(o.Timeout, maxTimeout))
	}
	for {
		switch err := (gathering{&q.contents, o}).wait(ctx, end); {
		case err == errOver:
			return nil, nil
		case err != nil:
			return nil, err
		}
		if msgs, err := q.receive(ctx, o); err != nil || len(msgs) > 0 {
			return msgs, err
		}
	}
}

// WaitToReceive returns when Receive with the same options would hand out messages; the first receiver may have them. It
// ignores the Timeout, and returns the errors of the context and of the queue, and *InvalidError.
func (q *Queue) WaitToReceive(ctx context.Context, opts *ReceiveOptions) error {
	o, err := opts.check(&q.settings)
	if err != nil {
		return fmt.Errorf("queue: receive: %w", err)
	}
	return gathering{&q.contents, &o}.wait(ctx, time.Time{})
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
func (q *Queue) receive(ctx context.Context, o *ReceiveOptions) ([]*Message, error) {
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
	w := q.call((*call).hand)
	defer q.release(w)
	c := &w.Value
	for c.receive = *o; ; c.receive.Count = len(c.msgs) / 2 {
		err := q.together(ctx, w)
		if err == nil {
			return c.msgs, nil
		}
		// What fits depends on the engine, too, and only a commit knows.
		if len(c.msgs) < 2 || !errors.Is(err, batch.ErrTooLarge) {
			return nil, err
		}
	}
}

// Next completes a message that was received, as Complete does, and receives another one, as
// Receive does with a Count of 1: in one commit if one is visible. Else the message is completed
// at once, and then Next waits. A nil before completes nothing, so that a loop may begin with it.
// With a Timeout Next returns nil when no message came for so long.
//
// Errors: those of Complete, and then no message was received; and those of Receive, and then
// the message may be completed. A Count above 1 is an *InvalidError.
func (q *Queue) Next(ctx context.Context, before *Message, response any, opts *ReceiveOptions) (*Message, error) {
	o, err := opts.one(&q.settings, "Next")
	if err != nil {
		return nil, err
	}
	if before != nil {
		m, err := q.complete(ctx, before, response, &o)
		if m != nil || err != nil {
			return m, err
		}
	}
	msgs, err := q.Receive(ctx, &o)
	if err != nil || len(msgs) == 0 {
		return nil, err
	}
	return msgs[0], nil
}

// complete completes a message, and receives another one by the same commit, unless none is
// visible.
func (q *Queue) complete(ctx context.Context, before *Message, response any, o *ReceiveOptions) (*Message, error) {
	if err := errors.Join(ctx.Err(), q.check(ctx)); err != nil {
		return nil, err
	}
	w := q.call((*call).next)
	defer q.release(w)
	c := &w.Value
	c.message, c.response, c.receive = before, response, *o
	err := q.together(ctx, w)
	switch {
	case err != nil && len(c.msgs) > 0 && errors.Is(err, batch.ErrTooLarge):
		return nil, q.Complete(ctx, before.Receipt(), response)
	case err != nil:
		return nil, err
	case c.unread != nil || len(c.msgs) == 0:
		return nil, c.unread
	}
	return c.msgs[0], nil
}

// All yields messages one after the other, and waits for them. It is Next: a message that is
// neither settled when the loop goes on nor about to be by a batch is completed, without a
// response, by the commit that hands out the next one. The one at which the loop ends isn't,
// nor is one during which the context ended. With a Timeout All ends when no message came for so long.
//
// It ends quietly when the queue is closed or the context is over. Any other error is
// yielded once, and ends it.
func (q *Queue) All(ctx context.Context, opts *ReceiveOptions) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		var m *Message
		for {
			if m != nil && !q.holds(m.Receipt()) {
				m = nil
			}
			var err error
			m, err = q.Next(ctx, m, nil, opts)
			switch {
			case err != nil && !q.ended(ctx, err):
				yield(nil, err)
				return
			case err != nil || m == nil || !yield(m, nil):
				return
			}
		}
	}
}

// WaitFor returns when a message of one of the names, or of any name if there are none,
// is visible; the first receiver may have it. It returns the errors of the context and of the
// queue.
func (q *Queue) WaitFor(ctx context.Context, names ...string) error {
	return q.waitFor(ctx, names, func() bool { return q.index.first(names) != nil })
}

// WaitForOther is WaitFor of a message that has none of the names, and returns the name
// that it has.
func (q *Queue) WaitForOther(ctx context.Context, names ...string) (name string, err error) {
	err = q.waitFor(ctx, nil, func() (visible bool) {
		name, visible = q.index.other(names)
		return visible
	})
	return name, err
}

// Complete removes a message that was received, durably, and gives the response, any
// value or a Raw, to those that wait for it; nil is null.
//
// Errors: ErrGone when the message isn't there any more, ErrLeaseOver when the receipt
// isn't good any more, ErrBusy, *InvalidError for a response that can't be encoded, and
// those of actorstore.Actor.Commit.
func (q *Queue) Complete(ctx context.Context, r Receipt, response any) error {
	w := q.call((*call).complete)
	defer q.release(w)
	w.Value.receipt, w.Value.response = r, response
	return q.together(ctx, w)
}

// Nack gives a message that was received back, durably: it is visible after the delay.
// If it was handed out Options.MaxReceive times it becomes a dead letter instead: at once,
// or, if the actor has no room for that, as soon as it has. An error that Permanent has marked makes it one however often it was handed out.
//
// why is the error that the attempt ended with: its text is stored with the message, and its
// code, which is what a method ErrorCode() string of it says, or a word for its kind; see
// Failure. nil is for a message that is given back without having failed.
//
// Errors: as Complete.
func (q *Queue) Nack(ctx context.Context, r Receipt, delay time.Duration, why error) error {
	return q.settle(ctx, func(_ *call, tx *Tx) error { return tx.Nack(ctx, r, delay, why) })
}

// Extend has the lease of a message that was received end d from now, durably; the
// receipt stays good.
//
// Errors: as Complete.
func (q *Queue) Extend(ctx context.Context, r Receipt, d time.Duration) error {
	return q.settle(ctx, func(_ *call, tx *Tx) error { return tx.Extend(ctx, r, d) })
}
