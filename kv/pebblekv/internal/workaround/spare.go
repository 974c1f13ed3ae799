package workaround

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// A spare keeps the oldest snapshot for a while after its users have closed it. All snapshots of Pebble's are taken from
// and given to it.
//
// Why: when its oldest snapshot is closed, Pebble looks for something to compact. That takes longer than all else about a
// snapshot of a transaction, and it waits for the lock of Pebble's list of tables, which is held while the list waits for
// room on a full disk. With an older snapshot beside it, closing one is taking it out of a list. So only the timer of the
// spare closes the oldest. What the spare keeps from being dropped is one version of each key, for as long as keep says, or
// until closing the one before has ended.
type spare struct {
	guard func(func() error) error // what closes a snapshot runs in it
	keep  time.Duration

	mu    sync.Mutex
	taken uint64      // how many snapshots were taken  +checklocks:mu
	kept  Pin         // +checklocks:mu
	timer *time.Timer // +checklocks:mu
	busy  bool        // drop is closing one  +checklocks:mu
	over  bool        // +checklocks:mu

	// dropping is held by drop.
	dropping sync.Mutex
}

// A Pin is a snapshot of Pebble's, and its place in the order in which they were taken. Newest.Unpin ends it, not Close.
type Pin struct {
	*pebble.Snapshot
	number uint64
	shared *before // if others use the snapshot, too
}

// spareTime is how long a snapshot is kept, but in tests.
const spareTime = time.Second

// take takes a snapshot, for give.
func (s *spare) take(db *pebble.DB) Pin {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken++
	return Pin{Snapshot: db.NewSnapshot(), number: s.taken}
}

// give keeps p, or closes the younger one of p and what is kept. It doesn't wait for the disk before close.
func (s *spare) give(p Pin) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return s.guard(p.Close)
	case s.kept.Snapshot == nil:
		s.kept = p
		if !s.busy {
			s.arm()
		}
		return nil
	case p.number < s.kept.number:
		p, s.kept = s.kept, p
	}
	return s.guard(p.Close)
}

// arm has the timer close what is kept.
//
// +checklocks:s.mu
func (s *spare) arm() {
	if s.timer == nil {
		s.timer = time.AfterFunc(s.keep, s.drop)
	} else {
		s.timer.Reset(s.keep)
	}
}

// drop closes the spare. It may wait for room on the disk, while give keeps the next one.
func (s *spare) drop() {
	s.dropping.Lock()
	defer s.dropping.Unlock()
	s.mu.Lock()
	p := s.kept
	s.kept, s.busy = Pin{}, true
	s.mu.Unlock()
	if p.Snapshot != nil {
		_ = s.guard(p.Close) // it frees memory, and can't fail
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy = false; s.kept.Snapshot != nil {
		s.arm()
	}
}

// close closes the spare, and keeps none from now on.
func (s *spare) close() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.drop() // after the one that the timer began
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
}
