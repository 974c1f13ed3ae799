package pebblekv

import (
	"bytes"
	"context"
	"sync"

	"github.com/greenroomdb/greenroom/kv"
)

// maxReclaims is how many ranges a reclaimer remembers.
const maxReclaims = 4096

// A reclaimer compacts ranges that were cleared while the disk had little room. Pebble by itself drops at once only tables that lie within
// such a range, and the rest when much of a level is dropped.
type reclaimer struct {
	*store
	ctx   context.Context // until stop
	end   context.CancelFunc
	nudge chan struct{}
	over  chan struct{} // closed when run has ended

	mu     sync.Mutex
	ranges []kv.Range // the oldest first  +checklocks:mu
}

// newReclaimer returns a running reclaimer of an open store.
func newReclaimer(s *store) *reclaimer {
	r := &reclaimer{store: s, nudge: make(chan struct{}, 1), over: make(chan struct{})}
	r.ctx, r.end = context.WithCancel(context.Background())
	go r.run()
	return r
}

// stop ends run, before Pebble is closed.
func (r *reclaimer) stop() {
	r.end()
	<-r.over
}

// applied is told of operations that were applied.
func (r *reclaimer) applied(ops []kv.Op) {
	if !r.room.low.Load() {
		return
	}
	for i := range ops {
		if o := &ops[i]; o.Kind == kv.OpClearRange {
			r.add(kv.Range{Start: bytes.Clone(o.Key), End: bytes.Clone(o.Value)})
		}
	}
}

// add adds a range unless there are too many.
func (r *reclaimer) add(of kv.Range) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ranges) < maxReclaims && bytes.Compare(of.Start, of.End) < 0 {
		r.ranges = append(r.ranges, of)
	}
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}

// next takes the oldest range, while the disk has little room.
func (r *reclaimer) next() (of kv.Range, ok bool) {
	low := r.room.check() != nil
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ranges) == 0 || !low {
		r.ranges = nil
		return of, false
	}
	of, r.ranges = r.ranges[0], r.ranges[1:]
	return of, true
}

// run compacts one range after the other. Pebble tries one without room again until it has some, which the compactor paces. A range whose
// compaction fails comes again after the others.
func (r *reclaimer) run() {
	defer close(r.over)
	for {
		select {
		case <-r.nudge:
		case <-r.ctx.Done():
			return
		}
		for of, ok := r.next(); ok && r.ctx.Err() == nil && r.fault.Get() == nil; of, ok = r.next() {
			err := r.fault.Guard(func() error { return r.db.Compact(r.ctx, of.Start, of.End, false) })
			if err != nil {
				r.add(of)
			}
		}
	}
}
