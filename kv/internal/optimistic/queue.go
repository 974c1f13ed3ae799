package optimistic

import (
	"sync"

	"github.com/greenroomdb/greenroom/kv/txn"
)

// A request is a commit that waits for its turn.
type request struct {
	attempt *attempt
	commit  *txn.Commit
	stamp   txn.Stamp
	err     error
	// wake receives true when the request is to lead the next group, and false when
	// it is done. It is made for those that have to wait.
	wake chan bool
}

// A queue holds the commits that arrive while others are being applied. A caller that
// finds no leader leads: it takes every waiting commit, applies them as one commit of
// the engine, hands the lead to the first commit that arrived meanwhile, and only then
// waits for the disk. So there isn't a goroutine to stop.
type queue struct {
	mu      sync.Mutex
	waiting []*request // +checklocks:mu
	leading bool       // +checklocks:mu
}

const (
	// maxGroup is how many commits a group has at most: the order of a stamp has
	// 16 bits.
	maxGroup = 1 << 16
	// maxGroupBytes is when a group takes no more, so that the engine's lock isn't
	// held for long.
	maxGroupBytes = 4 << 20
)

// submit commits r, and returns when r.stamp and r.err are the result.
func (c *Core) submit(r *request) {
	q := &c.queue
	q.mu.Lock()
	q.waiting = append(q.waiting, r)
	lead := !q.leading
	if lead {
		q.leading = true
	} else {
		r.wake = make(chan bool, 1)
	}
	q.mu.Unlock()
	if !lead && !<-r.wake {
		return
	}
	requests := q.take()
	wait := c.commit(requests)
	q.pass()
	if err := wait(); err != nil {
		for _, m := range requests {
			if m.err == nil {
				m.err = err
			}
		}
	}
	for _, m := range requests {
		if m != r {
			m.wake <- false
		}
	}
}

// take returns the next group, which begins with the leader's own request.
func (q *queue) take() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for n < len(q.waiting) && n < maxGroup && size < maxGroupBytes {
		for _, o := range q.waiting[n].commit.Ops {
			size += len(o.Key) + len(o.Value)
		}
		n++
	}
	group := q.waiting[:n:n]
	if q.waiting = q.waiting[n:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
	return group
}

// pass hands the lead on.
func (q *queue) pass() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.leading = len(q.waiting) > 0; q.leading {
		q.waiting[0].wake <- true
	}
}
