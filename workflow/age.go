package workflow

import (
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// ages gives entries the times of their creation, such that sorted by these, and then by
// Location, they are in the order in which they were created, as Snapshot.ByAge has them:
// also those of one millisecond, and those from before and after the clock was set back.
type ages struct {
	mu     sync.Mutex
	known  bool             // the history was looked at  +checklocks:mu
	newest history.Millis   // of all that were given out  +checklocks:mu
	at     history.Location // where that is  +checklocks:mu
}

// maxAhead is how far such a time may be ahead of the clock. If that was set back by more
// the order is lost, and times are right.
const maxAhead = time.Minute

// created returns the time for an entry that is about to be created at a location.
func (a *ages) created(h *history.History, now history.Millis, at history.Location) history.Millis {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.known {
		a.newest, a.at = h.Newest()
		a.known = true
	}
	if ahead := a.newest; ahead > now && ahead-now <= history.Millis(maxAhead.Milliseconds()) {
		now = ahead
	}
	if now == a.newest && at < a.at {
		now++
	}
	a.newest, a.at = now, at
	return now
}
