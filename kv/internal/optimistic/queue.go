package optimistic

import (
	"context"

	"github.com/greenroomdb/greenroom/internal/groupcommit"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A request is a commit that waits for its turn.
type request struct {
	attempt *attempt
	commit  *txn.Commit
	stamp   txn.Stamp
	err     error
}

const (
	// maxGroup is how many commits a group has at most: the order of a stamp has
	// 16 bits.
	maxGroup = 1 << 16
	// maxGroupBytes is when a group takes no more, so that the engine's lock isn't
	// held for long.
	maxGroupBytes = 4 << 20
)

// submit commits r, and returns r with its stamp and error. A caller that leads applies every
// waiting commit with its own as one commit of the engine, hands the lead on, and only
// then waits for the disk.
func (c *Core) submit(r request) *request {
	w := &groupcommit.Waiter[request]{Value: r}
	// The context doesn't end, so there isn't an error.
	if leads, _ := c.line.Enter(context.Background(), w); !leads {
		return &w.Value
	}
	n, size := 1, w.Value.size()
	others := c.line.Take(func(r *request) bool {
		if n == maxGroup || size >= maxGroupBytes {
			return false
		}
		n, size = n+1, size+r.size()
		return true
	})
	requests := make([]*request, 1, n)
	requests[0] = &w.Value
	for _, o := range others {
		requests = append(requests, &o.Value)
	}
	wait := c.commit(requests)
	w.Pass()
	if err := wait(); err != nil {
		for _, m := range requests {
			if m.err == nil {
				m.err = err
			}
		}
	}
	for _, o := range others {
		o.Done()
	}
	return &w.Value
}

// size returns how many bytes the commit writes.
func (r *request) size() (n int) {
	for _, o := range r.commit.Ops {
		n += len(o.Key) + len(o.Value)
	}
	return n
}
