package queue

import (
	"time"

	"github.com/greenroomdb/greenroom/batch"
)

// due makes visible what is to be visible by now.
//
// +checklocks:q.mu
func (q *Queue) due() {
	x := &q.index
	if x.timed.top() == nil {
		return
	}
	now := q.millis()
	for it := x.timed.top(); it != nil && it.at <= now; it = x.timed.top() {
		if it.state == leased {
			q.count(metricExpired, 1)
		}
		x.take(it)
		it.state, it.at = ready, 0
		q.put(it)
	}
}

// ring is called by the alarm.
func (q *Queue) ring() {
	q.arming.Lock()
	q.armed = 0 // it has rung
	q.arming.Unlock()
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return
	}
	q.rings.Add(1)
	q.due()
	q.mu.Unlock()
	defer q.rings.Done()
	q.buryAll()
	q.arm()
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
	if q.armed = next; next == 0 {
		q.source.Set(time.Time{})
		return
	}
	q.source.Set(time.UnixMilli(next))
}

// nextRing returns when the alarm must ring, 0 for never.
func (q *Queue) nextRing() (next int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.failed != nil {
		return 0
	}
	if it := q.index.timed.top(); it != nil {
		next = max(it.at, 1)
	}
	if q.index.dying.top() != nil && (next == 0 || q.retryAt < next) {
		next = max(q.retryAt, 1)
	}
	return next
}

// Dead letters that couldn't be stored are tried again after a while: first after
// minBackoff, then after twice as long each time, up to maxBackoff.
const (
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// buryAll makes dead letters of the messages that were handed out often enough. That is
// done here and not by who receives: nobody may be there to receive.
func (q *Queue) buryAll() {
	for {
		q.mu.Lock()
		wait := q.index.dying.top() == nil || q.retryAt > q.millis()
		q.mu.Unlock()
		if wait {
			return
		}
		err := q.commit(q.ctx, q.stageDying)
		q.mu.Lock()
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

// buriedAtOnce is how many dead letters one commit makes.
const buriedAtOnce = 32

// stageDying stages some dead letters.
func (q *Queue) stageDying(b *batch.Batch) error {
	for range buriedAtOnce {
		q.mu.Lock()
		it := q.index.dying.top()
		if it == nil {
			q.mu.Unlock()
			return nil
		}
		st, err := q.staging(b)
		var c *change
		if err == nil {
			c, err = st.claim(it)
		}
		q.mu.Unlock()
		if err != nil {
			return err
		}
		value, err := q.value(q.ctx, it)
		var r record
		if err == nil {
			r, err = parseRecord(value)
		}
		if err != nil {
			if damaged(err) {
				st.setAside(c, err)
				continue
			}
			return err
		}
		q.mu.Lock()
		st.bury(c, &r) // or the message goes on as it is, if it can't be laid aside
		q.mu.Unlock()
	}
	return nil
}
