package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// ring is called by the alarm.
func (q *committer) ring() {
	q.bell.rung()
	q.mu.Lock()
	if q.usable() != nil || !q.works.Enter() {
		q.mu.Unlock()
		q.bell.arm()
		return
	}
	q.due()
	q.mu.Unlock()
	defer q.works.Leave()
	q.buryAll()
	q.bell.arm()
}

// buryAll makes dead letters of the messages that were handed out often enough. That is
// done here and not by a receiver, since a queue may be without one.
func (q *committer) buryAll() {
	for most := buriedAtOnce; ; {
		q.mu.Lock()
		wait := q.index.dying.top == nil || q.retry.at > q.millis()
		if !wait {
			q.retry.lacking = 0 // the commit finds out anew
		}
		q.mu.Unlock()
		if wait {
			return
		}
		var dying []*item
		err := q.commit(q.ctx, func(tx *Tx) (err error) {
			dying, err = q.buryDying(tx, most)
			return err
		})
		if n := len(dying); n > 0 && errors.Is(err, batch.ErrTooLarge) {
			// What fits depends on the engine, too, and only a commit knows.
			if most = max(n/2, 1); n == 1 {
				q.park(dying[0], err)
			}
			continue
		}
		q.mu.Lock()
		if err == nil && q.retry.lacking > 0 {
			err = fmt.Errorf("%w: %d bytes more are needed", actorstore.ErrQuota, q.retry.lacking-q.room())
		}
		if err == nil {
			q.retry.done()
		} else {
			q.retry.failed(q.millis())
		}
		q.mu.Unlock()
		if err != nil {
			if q.ctx.Err() == nil {
				q.log.Warn("queue: dead letters could not be stored", "actor_id", q.actor.ID(), "err", err)
			}
			return
		}
	}
}

// buriedAtOnce is how many dead letters one commit makes, if they fit into it.
const buriedAtOnce = 32

// park sets a message aside for which no commit has room as a dead letter: tried for ever,
// it would keep those behind it waiting.
func (q *committer) park(it *item, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it.where == dying { // else a receiver has it, or it is removed
		q.index.take(it)
		q.putAside(it, fmt.Errorf("it can't become a dead letter: %w", err))
	}
}

// buryDying stages dead letters, and returns of what.
func (q *committer) buryDying(tx *Tx, most int) (dying []*item, err error) {
	for range most {
		q.mu.Lock()
		it := q.index.dying.top
		if it == nil {
			q.mu.Unlock()
			return dying, nil
		}
		err := tx.begin()
		var c *change
		if err == nil {
			c, err = tx.claim(it)
		}
		q.mu.Unlock()
		if err != nil {
			return dying, err
		}
		r, err := c.read(q.ctx)
		if err != nil {
			if damaged(err) {
				tx.setAside(c, err)
				continue
			}
			return dying, err
		}
		r.expired(q.tells, c.to)
		q.mu.Lock()
		tx.bury(c, &r) // or the message goes on as it is, if it can't be laid aside
		q.mu.Unlock()
		dying = append(dying, it)
	}
	return dying, nil
}

// RedriveOptions select dead letters. The zero value means all.
type RedriveOptions struct {
	// Names are those that the messages had before they became dead letters; none means all. One that
	// Options.Names doesn't have is ErrUnknownName, and without Names such dead letters stay.
	Names []string
	// Limit is the largest number of dead letters; 0 means all.
	Limit int
}

// run is Queue.Redrive.
func (o *RedriveOptions) run(ctx context.Context, q *committer) (n int, err error) {
	ids, err := o.ids(ctx, q)
	for most := buriedAtOnce; err == nil && len(ids) > 0; {
		page, moved := ids[:min(most, len(ids))], 0
		err = q.commit(ctx, func(tx *Tx) error {
			moved = 0
			for _, id := range page {
				ok, err := o.redrive(ctx, tx, id)
				if err != nil {
					return err
				}
				if ok {
					moved++
				}
			}
			return nil
		})
		// What fits depends on the engine, too, and only a commit knows.
		if len(page) > 1 && errors.Is(err, batch.ErrTooLarge) {
			most, err = len(page)/2, nil
			continue
		}
		if err == nil {
			n, ids = n+moved, ids[len(page):]
		}
	}
	return n, err
}

// ids returns the ids of the dead letters that are selected and visible, in order.
func (o *RedriveOptions) ids(ctx context.Context, q *committer) (ids []ID, err error) {
	if err := q.check(ctx); err != nil {
		return nil, err
	}
	if o.Limit < 0 {
		return nil, &InvalidError{What: whatOptions, Err: fmt.Errorf("the limit is %d", o.Limit)}
	}
	for _, name := range o.Names {
		if q.names != nil && !q.names[name] {
			return nil, fmt.Errorf("%q: %w", name, ErrUnknownName)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.due()
	for id, it := range q.index.byID {
		first, ok := q.opts.firstName(it.line.name)
		if ok && it.state == ready && (q.names == nil || q.names[first]) && (len(o.Names) == 0 || slices.Contains(o.Names, first)) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if o.Limit > 0 {
		ids = ids[:min(o.Limit, len(ids))]
	}
	return ids, nil
}

// redrive stages that a message takes the place of a dead letter, and reports false if that is gone, or is in use by now. One that
// can't be read is set aside.
func (o *RedriveOptions) redrive(ctx context.Context, tx *Tx, id ID) (ok bool, err error) {
	q := tx.q
	q.mu.Lock()
	it := q.index.byID[id]
	if it == nil || it.claim != nil || it.state != ready {
		q.mu.Unlock()
		return false, nil
	}
	var c *change
	if err = tx.begin(); err == nil {
		c, err = tx.claim(it)
	}
	q.mu.Unlock()
	if err != nil {
		return false, err
	}
	r, err := c.read(ctx)
	if damaged(err) {
		tx.setAside(c, err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	first, _ := q.opts.firstName(r.name)
	q.mu.Lock()
	defer q.mu.Unlock()
	next, err := tx.add(&record{name: first, body: r.body, created: r.created, past: past{sender: r.past.sender}, priority: r.priority}, false)
	if err != nil {
		return false, err
	}
	c.remove, c.metric = true, metricRedriven
	c.answer = answer{err: fmt.Errorf("%w: it became the message %s again", ErrNoAnswer, next.id)}
	return true, nil
}
