package queue

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Receive stages that messages are handed out, and returns them; it never waits, and
// returns none when none is visible now. Behind those that are stored come those that the
// same batch has enqueued without a delay. One that it gives back without a delay takes its
// place again. No other receiver gets them until the batch is
// settled. If it doesn't land they were not received, and the receipts are void. The same
// batch may settle what it has received: a message that it enqueues and completes is never
// stored, and its id is used up. Dead letters that the batch makes can be received when it
// has landed.
func (tx *Tx) Receive(ctx context.Context, opts *ReceiveOptions) ([]*Message, error) {
	o, err := opts.check(&tx.q.settings)
	if err == nil {
		err = tx.q.check(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("queue: receive: %w", err)
	}
	return tx.receive(ctx, &o)
}

func (tx *Tx) receive(ctx context.Context, o *ReceiveOptions) (msgs []*Message, err error) {
	q := tx.q
	q.mu.Lock()
	err = tx.begin()
	q.mu.Unlock()
	type claim struct {
		c   *change
		was change
	}
	var claims []claim
	for err == nil && len(msgs) < o.Count {
		var c *change
		if c, err = tx.first(o); c == nil {
			break
		}
		alone := o.Apart && c.to.deliveries > 0
		if alone && len(msgs) > 0 {
			tx.leave(c)
			break
		}
		was := *c
		var m *Message
		m, err = tx.hand(ctx, c, o)
		switch {
		case damaged(err):
			tx.setAside(c, err)
			err = nil
		case err == nil:
			msgs = append(msgs, m)
			fallthrough
		default:
			claims = append(claims, claim{c, was})
		}
		if alone && len(msgs) > 0 {
			break
		}
	}
	if err == nil {
		return msgs, nil
	}
	q.mu.Lock()
	for _, cl := range claims {
		if cl.was.back {
			*cl.c = cl.was
		} else {
			tx.unclaim(cl.c)
		}
	}
	q.mu.Unlock()
	return nil, fmt.Errorf("queue: receive: %w", err)
}

// hand stages that a message is handed out.
func (tx *Tx) hand(ctx context.Context, c *change, o *ReceiveOptions) (*Message, error) {
	q, it := tx.q, c.it
	r, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	r.expired(q.tells, c.to)
	now := q.millis()
	m := &Message{
		ID: it.id, Name: r.name, Body: slices.Clone(r.body), Created: time.UnixMilli(r.created),
		From: r.past.sender, Failure: r.past.failure(), Deliveries: c.to.deliveries + 1, Priority: int(r.priority), q: q, grant: newGrant(),
	}
	if m.Deliveries == 0 { // it has gone round
		m.Deliveries = 1
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	c.granted, c.waited = m.grant, time.Duration(now-max(r.created, 0))*time.Millisecond
	if o.AtMostOnce {
		c.remove, c.answer = true, answer{err: ErrNoAnswer}
		return m, nil
	}
	m.Until = time.UnixMilli(after(now, o.Visibility))
	c.lease(&r, lease{leased, m.Until.UnixMilli(), m.Deliveries, m.grant, max(now, 1)}, now)
	m.grant.stored = c.rec != nil
	return m, nil
}

// expired adds to what is known of a message that its lease ran out, if it did.
func (r *record) expired(tells bool, l lease) {
	if tells && l.since != 0 {
		r.past.fail(l.since, leaseRanOut)
	}
}
