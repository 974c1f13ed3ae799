package workflow

import (
	"time"

	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// Sleep waits for d from the first time that the code comes here; nothing or less doesn't
// wait. The workflow needs no process meanwhile.
func (c *Context) Sleep(name string, d time.Duration) {
	c.sleep(name, func() time.Time { return c.r.wf.clock.Now().Add(d) })
}

// SleepUntil waits until t, in milliseconds, rounded up. In a later run t may be another
// time: what counts is the one that was recorded. A time of more than 2⁶³ milliseconds after
// 1970, which can't be stored, is ErrMisuse.
func (c *Context) SleepUntil(name string, t time.Time) {
	if history.MillisOf(t) == history.Never {
		c.misuse(name, "the time is too late to be stored; wait for a message instead")
	}
	c.sleep(name, func() time.Time { return t })
}

func (c *Context) sleep(name string, until func() time.Time) {
	p := c.enter(name)
	defer c.end()
	k, ok := kind[history.Sleep](p)
	if ok && k.State != history.SleepPending {
		return
	}
	if c.r.undoing != nil {
		c.stopCollecting()
	}
	m := p.status()
	if !ok {
		k.Deadline = history.MillisOf(until())
		m.Status = history.StatusRunning
		w := atOnce
		if k.Deadline <= c.r.wf.now() { // it is over
			w = withNext
		}
		p.must(p.record(k, m, w))
	}
	for k.Deadline > c.r.wf.now() {
		c.park(history.Wait{For: history.WaitTimer, Path: p.path(), Until: k.Deadline}, p.at)
	}
	// If this is not recorded before the process ends, the next run finds a time that has
	// passed.
	k.State = history.SleepCompleted
	p.must(p.record(k, p.completed(), withNext))
}
