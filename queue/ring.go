package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// due makes visible what is to be visible by now.
//
// +checklocks:q.mu
func (q *Queue) due() {
	x, now := &q.index, q.millis()
	q.keys.sooner(x.observe(now))
	for it := x.timed.top(); it != nil && it.at <= now; it = x.timed.top() {
		if it.state == leased {
			q.meter.Count(metricExpired, 1)
		}
		x.take(it)
		it.state, it.at = ready, 0
		q.put(it)
	}
}

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

// A ringing is what the alarm is set to: a time in Unix ms, 0 for nothing, and whether
// it counts without ringing, since the queue can't do anything about it.
type ringing struct {
	at   int64
	held bool
}

// arm sets the alarm to the next time at which something becomes visible or a dead letter
// is due.
func (q *Queue) arm() {
	q.arming.Lock()
	defer q.arming.Unlock()
	next := q.nextRing()
	if q.source == nil || next == q.armed {
		return
	}
	q.armed = next
	at := time.Time{}
	if next.at != 0 {
		at = time.UnixMilli(next.at)
	}
	if next.held {
		q.source.Hold(at)
		return
	}
	q.source.Set(at)
}

// nextRing returns when the alarm must ring.
func (q *Queue) nextRing() (next ringing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	next.held = q.usable() != nil
	if it := q.index.timed.top(); it != nil {
		next.by(it.at)
	}
	if q.index.dying.top() != nil {
		next.by(q.retryAt)
	}
	now := q.millis()
	for _, tx := range q.open {
		for _, c := range tx.changes {
			if c.it.line != nil && (c.it.state != ready || q.dying(c.it.line.name, c.it.lease)) {
				next.by(q.claimedRing(c.it.at, now, next.held))
			}
		}
	}
	return next
}

// claimedRing returns when the alarm must ring for a message that a batch has, and that is
// stored as it was. While the batch is open there is nothing to be done about it; but
// should the process end with it, the actor must be woken. So it counts as if its time
// were yet to come.
func (q *Queue) claimedRing(at, now int64, held bool) int64 {
	if at > now || held {
		return at
	}
	return after(now, minBackoff)
}

// by has it be no later than at.
func (r *ringing) by(at int64) {
	if at = max(at, 1); r.at == 0 || at < r.at {
		r.at = at
	}
}

// Dead letters that couldn't be stored are tried again after a while: first after
// minBackoff, then after twice as long each time, up to maxBackoff.
const (
	minBackoff = time.Second
	maxBackoff = time.Minute
)

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
