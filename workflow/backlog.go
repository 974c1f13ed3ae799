package workflow

import "github.com/greenroomdb/greenroom/workflow/internal/history"

// deferred has tx change the memory at once, to be written by the next commit.
func (c *Context) deferred(tx *history.Tx) error {
	if !c.r.wf.small {
		return c.deferNow(tx)
	}
	for {
		if done, err := c.deferIfRoom(tx); done || err != nil {
			return err
		}
		if err := c.flush(); err != nil {
			return err
		}
	}
}

// deferIfRoom defers tx if what is deferred then still fits into the next commit, with what
// that is for.
func (c *Context) deferIfRoom(tx *history.Tx) (done bool, err error) {
	c.r.deferring.Lock() // branches that all look first would find the same room
	defer c.r.deferring.Unlock()
	if writes, bytes := c.r.wf.h.Deferred(); writes >= maxBehind || bytes >= maxBehindBytes {
		return false, nil
	}
	return true, c.deferNow(tx)
}

func (c *Context) deferNow(tx *history.Tx) error {
	c.r.writing.RLock()
	defer c.r.writing.RUnlock()
	if c.mayWrite() != nil {
		leave()
	}
	err := tx.Defer()
	if err == nil {
		return nil
	}
	if large := tooLarge(err); large != nil {
		return large
	}
	c.r.halt(storageError(err))
	leave()
	return nil
}

// maxNames is how many names a commit may have to write besides where commits are small.
const maxNames = 24

// storeNames writes names that would make a commit too large. A goroutine that registers some
// calls it before they are in an entry: it needs at most maxNames unstored names then,
// whatever others register meanwhile.
func (c *Context) storeNames() {
	w := c.r.wf
	if !w.small || c.r.undoing != nil || w.h.Unstored() <= maxNames {
		return
	}
	if err := w.h.StoreNames(c.r.steady, maxNames); err != nil {
		c.r.halt(storageError(err))
		leave()
	}
}

// A backlog is what was deferred and waits for a commit.
type backlog struct{ entries, bytes int }

// Bounds of a backlog. Where a commit must be a single batch of 128 keys maxBehind counts
// writes, of which an entry takes two: there are names and the commit's own besides.
const (
	maxBehind      = 40
	maxBehindBytes = 256 << 10
)

// fallBehind notes that an entry was deferred, and reports whether it is time for a commit.
func (r *run) fallBehind(k history.Kind) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.behind.entries++
	switch k := k.(type) {
	case history.Step:
		r.behind.bytes += len(k.Output)
	case history.Loop:
		r.behind.bytes += len(k.State) + len(k.Output)
	case history.Join:
		for _, b := range k.Branches {
			r.behind.bytes += len(b.Output)
		}
	}
	return r.behind.entries >= maxBehind || r.behind.bytes >= maxBehindBytes
}

// draw notes that something was deferred that another run would not find again.
func (r *run) draw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drawn++
}

// settleDrawn writes what was drawn: what depends on it is about to leave the process.
func (c *Context) settleDrawn() {
	c.r.mu.Lock()
	drawn := c.r.drawn
	c.r.mu.Unlock()
	if drawn > 0 {
		// Nothing is left to be too large: it was looked at when it was deferred.
		if err := c.flush(); err != nil {
			c.r.halt(storageError(err))
			leave()
		}
	}
}
