package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// A Send is a message to be enqueued.
type Send struct {
	// Name says what kind of message it is, and to whom: receivers choose by it. Any
	// UTF-8 is a name, the empty one too.
	Name string
	// Body is any value that CBOR has (see Message.Decode), or a Raw, which must not
	// change until the message is stored. nil is null.
	Body any
	// Delay is how long the message is invisible; to the millisecond.
	Delay time.Duration
	// From is the actor that sends the message, if it is another one; "" if that isn't known. It is UTF-8 of at most 255 bytes.
	// It is stored when an attempt at the message fails, and in memory before: see Message.From.
	From string
	// Key, unless it is "", makes sending again harmless: a second message of the same
	// name with the same key within Options.KeyWindow is not enqueued, and gets the ID of
	// the first one, whatever has become of that.
	Key string
}

// Enqueue stores a message behind all others, durably, and returns its ID.
//
// Errors: *FullError, *SizeError, *InvalidError, ErrUnknownName, ErrKeysFull, ErrPlain,
// ErrNoIDs, and those of actorstore.Actor.Commit.
func (q *Queue) Enqueue(ctx context.Context, s Send) (id ID, err error) {
	err = q.retryKeys(ctx, func(tx *Tx) (err error) {
		id, err = tx.Enqueue(s)
		return err
	})
	if err != nil {
		return 0, err
	}
	return id, nil
}

// EnqueueAll stores messages in one commit: all, in that order, or none.
func (q *Queue) EnqueueAll(ctx context.Context, sends []Send) (ids []ID, err error) {
	if len(sends) == 0 {
		return nil, q.check(ctx)
	}
	err = q.retryKeys(ctx, func(tx *Tx) error {
		ids = ids[:0]
		for _, s := range sends {
			id, err := tx.Enqueue(s)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// retryKeys is commit, again and again while another batch is about to use a key: what comes
// of that decides.
func (q *Queue) retryKeys(ctx context.Context, stage func(tx *Tx) error) error {
	for {
		err := q.commit(ctx, stage)
		var busy *busyKey
		if !errors.As(err, &busy) {
			return err
		}
		if _, err := await(ctx, q, busy.settled, nil); err != nil {
			return err
		}
	}
}

// Enqueue stages a message and returns the ID that it will have. Its limits are checked
// now, its place is reserved, and it becomes visible when the batch lands.
//
// Errors: as Queue.Enqueue, and ErrBusy when another open batch has the same key.
func (tx *Tx) Enqueue(s Send) (ID, error) {
	id, err := tx.enqueue(&s)
	if err != nil {
		return 0, fmt.Errorf("queue: enqueue %.80q: %w", s.Name, err)
	}
	return id, nil
}

func (tx *Tx) enqueue(s *Send) (ID, error) {
	q := tx.q
	r, err := q.compose(s)
	if err != nil {
		return 0, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := tx.begin(); err != nil {
		return 0, err
	}
	var k *keyed
	if s.Key != "" {
		now := q.millis() // a time from before q.mu was locked would be a clock that was set back
		q.keys.sooner(q.index.observe(now))
		if k, err = q.keys.find(&tx.keys, noteKeyOf(s.Name, s.Key), now, q.opts.MaxKeys); err != nil {
			return 0, err
		}
		if k.id != 0 {
			q.meter.Count(metricDuplicate, 1)
			return k.id, nil
		}
	}
	it, err := tx.admit(r)
	if err != nil {
		return 0, err
	}
	if k != nil {
		q.keys.take(&tx.keys, k, it.id, after(r.created, q.opts.KeyWindow))
	}
	return it.id, nil
}

// admit adds a message if there is room.
//
// +checklocks:tx.q.mu
func (tx *Tx) admit(r *record) (*item, error) {
	q := tx.q
	n := len(q.index.byID) + q.reserved
	if limit := q.opts.MaxMessages; limit >= 0 && n >= limit && n-removed(tx.changes) >= limit {
		return nil, &FullError{limit}
	}
	return tx.add(r, false)
}

// removed returns how many messages the changes remove, in whose place others may come.
func removed(changes []*change) (n int) {
	for _, c := range changes {
		if c.remove && c.grave == nil {
			n++
		}
	}
	return n
}

// compose checks what is to be sent, and returns what is to be stored.
func (q *Queue) compose(s *Send) (*record, error) {
	switch {
	case !utf8.ValidString(s.Name):
		return nil, &InvalidError{What: whatName, Err: errors.New("it is not UTF-8")}
	case q.names != nil && !q.names[s.Name]:
		return nil, ErrUnknownName
	case len(s.From) > maxSender || !utf8.ValidString(s.From):
		return nil, &InvalidError{What: whatOptions, Err: fmt.Errorf("the sender is %.80q", s.From)}
	case s.Delay < 0:
		return nil, &InvalidError{What: whatOptions, Err: fmt.Errorf("the delay is %v", s.Delay)}
	case s.Delay > 0 && q.opts.Plain:
		return nil, ErrPlain
	}
	body, err := encodeValue(s.Body, whatBody)
	if err != nil {
		return nil, err
	}
	r := &record{name: s.Name, body: body, created: q.millis()}
	if q.tells {
		r.past.sender = s.From
	}
	if s.Delay > 0 {
		r.available = some(after(r.created, s.Delay))
	}
	if n := r.size(); n > q.opts.MaxMessageBytes {
		return nil, &SizeError{n, q.opts.MaxMessageBytes}
	}
	return r, nil
}
