package queue

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// A Message is one that was received. It is its receiver's own.
type Message struct {
	ID      ID
	Name    string
	Body    Raw
	Created time.Time // when it was enqueued, to the millisecond
	// Deliveries is how often the message was handed out, this time included.
	Deliveries uint32
	Priority   int // see Send.Priority
	// From is the actor that sent the message, for people to read, and "" if that isn't known: it is kept in memory, and stored with
	// the first attempt that fails.
	From string
	// Failure is what is known of the attempts before this one.
	Failure Failure
	// Until is the end of the lease; zero if the message was received at most once, and
	// is gone.
	Until time.Time

	q     *committer
	grant *grant
}

// Receipt returns what entitles to settle the message. It may be another one, as good,
// when the lease has come to stable storage.
func (m *Message) Receipt() Receipt {
	r := Receipt{ID: m.ID, Deliveries: m.Deliveries}
	if m.grant != nil && !m.grant.durable(m.q.durable.Load()) { // nil: a test made it up
		r.Nonce = m.grant.nonce
	}
	return r
}

// Decode decodes the body into what v points to: structs and maps for objects, with tags
// of `cbor` or `json`; null and undefined leave it as it is.
func (m *Message) Decode(v any) error { return m.Body.Decode(v) }

// Complete is Queue.Complete for this message.
func (m *Message) Complete(ctx context.Context, response any) error {
	w := m.q.call((*call).complete)
	defer m.q.release(w)
	w.Value.message, w.Value.response = m, response
	return m.q.together(ctx, w)
}

// Nack is Queue.Nack for this message.
func (m *Message) Nack(ctx context.Context, delay time.Duration, why error) error {
	return m.q.settle(ctx, func(_ *call, tx *Tx) error { return tx.Nack(ctx, m.Receipt(), delay, why) })
}

// ReceiveOptions say what is received, and how. The zero value receives one message of
// any name, under a lease, and waits for it as long as the context lasts.
type ReceiveOptions struct {
	// Names are the names to choose from; none means all.
	Names []string
	// IDs, unless there are none, are the only messages that are received of those that are stored, visible and of the names, in this order.
	IDs []ID
	// Count is the largest number of messages; 0 means 1. Without Linger fewer are returned as soon as
	// there is one. Nor are there more than fit into one commit,
	// unless they are staged: then the batch's owner may be told batch.ErrTooLarge.
	Count int
	// Linger is how long Receive waits for Count messages when there is one, from when the oldest of the visible ones became
	// visible. Until it hands them out nothing is leased, and another receiver may take them. 0 means that it doesn't wait for
	// more; the time is in memory alone, and at most 100 years. The other methods ignore it, but for WaitToReceive.
	Linger time.Duration
	// Apart hands out a message by itself that was handed out before, so that one whose receiver fails takes no others with it for ever.
	// If it isn't the first, Receive returns those before it.
	Apart bool
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
	c.Linger = min(c.Linger, maxTimeout)
	if c.Count < 0 || c.Timeout < 0 || c.Linger < 0 || c.Visibility < time.Millisecond {
		return c, &InvalidError{What: whatOptions,
			Err: fmt.Errorf("count %d, timeout %v, linger %v, visibility %v", c.Count, c.Timeout, c.Linger, c.Visibility)}
	}
	return c, nil
}

// one is check for the receiver of one message at a time.
func (o *ReceiveOptions) one(in *settings, receiver string) (ReceiveOptions, error) {
	c, err := o.check(in)
	if err != nil {
		return c, fmt.Errorf("queue: receive: %w", err)
	}
	if c.Count > 1 {
		return c, &InvalidError{What: whatOptions, Err: fmt.Errorf("count %d, and %s receives one at a time", c.Count, receiver)}
	}
	return c, nil
}
