package queue

import (
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/alarm"
)

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

// A bell sets the alarm to the next time at which something becomes visible or a dead letter is due. Its lock orders the settings,
// and is taken before that of contents.
type bell struct {
	of     *contents
	source *alarm.Source // nil before the queue is open

	mu  sync.Mutex
	set ringing // what source is set to  +checklocks:mu
}

// arm sets the alarm anew.
func (b *bell) arm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.next()
	if b.source == nil || next == b.set {
		return
	}
	b.set = next
	at := time.Time{}
	if next.at != 0 {
		at = time.UnixMilli(next.at)
	}
	if next.held {
		b.source.Hold(at)
		return
	}
	b.source.Set(at)
}

// rung says that the alarm has rung, and is set to nothing.
func (b *bell) rung() {
	b.mu.Lock()
	b.set = ringing{}
	b.mu.Unlock()
}

// next returns when the alarm must ring.
func (b *bell) next() (next ringing) {
	c := b.of
	c.mu.Lock()
	defer c.mu.Unlock()
	next.held = c.usable() != nil
	if it := c.index.timed.top; it != nil {
		next.by(it.at)
	}
	if c.index.dying.top != nil {
		next.by(c.retry.at)
	}
	// What an open batch claims is stored as it was, and there is nothing to be done about it yet; but should the process end with the
	// batch, the actor must be woken. So it counts as if its time were yet to come.
	now := c.millis()
	for _, d := range c.open {
		for _, ch := range d.changes {
			it := ch.it
			switch {
			case it.line == nil || it.state == ready && !c.opts.dying(it.line.name, it.lease):
			case it.at > now || next.held:
				next.by(it.at)
			default:
				next.by(after(now, minBackoff))
			}
		}
	}
	return next
}
