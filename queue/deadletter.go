package queue

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// ring is called by the alarm.
func (q *Queue) ring() {
	q.arming.Lock()
	q.armed = ringing{} // it has rung
	q.arming.Unlock()
	q.mu.Lock()
	if q.usable() != nil || !q.works.Enter() {
		q.mu.Unlock()
		q.arm()
		return
	}
	q.due()
	q.mu.Unlock()
	defer q.works.Leave()
	q.buryAll()
	q.arm()
}

// buryAll makes dead letters of the messages that were handed out often enough. That is
// done here and not by a receiver, since a queue may be without one.
func (q *Queue) buryAll() {
	for most := buriedAtOnce; ; {
		q.mu.Lock()
		wait := q.index.dying.top() == nil || q.retryAt > q.millis()
		if !wait {
			q.lacking = 0 // the commit finds out anew
		}
		q.mu.Unlock()
		if wait {
			return
		}
		var dying []*item
		err := q.commit(q.ctx, func(tx *Tx) (err error) {
			dying, err = tx.buryDying(most)
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
		if err == nil && q.lacking > 0 {
			err = fmt.Errorf("%w: %d bytes more are needed", actorstore.ErrQuota, q.lacking-q.room())
		}
		if err == nil {
			q.retryAt, q.backoff = 0, 0
		} else {
			q.backoff = min(max(2*q.backoff, minBackoff), maxBackoff)
			q.retryAt = after(q.millis(), q.backoff)
		}
		q.mu.Unlock()
		if err != nil {
			if q.ctx.Err() == nil {
				q.log.Warn("queue: dead letters could not be stored", "actor", q.actor.ID(), "err", err)
			}
			return
		}
	}
}

// buriedAtOnce is how many dead letters one commit makes, if they fit into it.
const buriedAtOnce = 32

// park sets a message aside for which no commit has room as a dead letter: tried for ever,
// it would keep those behind it waiting.
func (q *Queue) park(it *item, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it.where == dying { // else a receiver has it, or it is removed
		q.index.take(it)
		q.putAside(it, fmt.Errorf("it can't become a dead letter: %w", err))
	}
}

// buryDying stages dead letters, and returns of what.
func (tx *Tx) buryDying(most int) (dying []*item, err error) {
	q := tx.q
	for range most {
		q.mu.Lock()
		it := q.index.dying.top()
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
		value, err := q.value(q.ctx, it)
		var r record
		if err == nil {
			r, err = parseRecord(value)
		}
		if err != nil {
			if damaged(err) {
				tx.setAside(c, err)
				continue
			}
			return dying, err
		}
		q.mu.Lock()
		tx.bury(c, &r) // or the message goes on as it is, if it can't be laid aside
		q.mu.Unlock()
		dying = append(dying, it)
	}
	return dying, nil
}

// bury stages that a message becomes a dead letter, behind all others: a new message
// takes its place. It reports false when the value has no room for the longer name,
// or the queue no id: the message then stays what it is.
//
// +checklocks:tx.q.mu
func (tx *Tx) bury(c *change, r *record) bool {
	q := tx.q
	dead := record{name: r.name + q.opts.DeadLetter, body: r.body, created: r.created}
	if !q.opts.Plain {
		dead.setLease(lease{deliveries: c.to.deliveries}, 0)
	}
	if dead.size() > q.limit {
		c.it.stays = true
		return false
	}
	it, err := tx.add(&dead, true)
	if err != nil {
		c.it.stays = true
		return false
	}
	it.deliveries = c.to.deliveries
	c.remove, c.grave, c.metric, c.alive = true, it, metricDead, c.metric
	c.answer = answer{err: fmt.Errorf("%w: it became the dead letter %s", ErrNoAnswer, it.id)}
	return true
}
