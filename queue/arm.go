package queue

import "time"

// A ringing is what the alarm is set to: a time in Unix ms, 0 for nothing, and whether
// it counts without ringing, since the queue can't do anything about it.
type ringing struct {
	at   int64
	held bool
}

// by has it be no later than at.
func (r *ringing) by(at int64) {
	if at = max(at, 1); r.at == 0 || at < r.at {
		r.at = at
	}
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
		next.by(q.retry.at)
	}
	now := q.millis()
	for _, tx := range q.open {
		for _, c := range tx.changes {
			if c.it.line != nil && (c.it.state != ready || q.opts.dying(c.it.line.name, c.it.lease)) {
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
