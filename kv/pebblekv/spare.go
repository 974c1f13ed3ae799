package pebblekv

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// A spare keeps the oldest snapshot for a while after its users have closed it.
//
// Why: when its oldest snapshot is closed, Pebble looks for something to compact, which
// takes longer than all else about a snapshot of a transaction. With an older one beside
// it, closing one is taking it out of a list. What the spare keeps from being dropped is
// one version of each key, for as long as keep says.
type spare struct {
	guard func(func() error) error // what closes a snapshot runs in it
	keep  time.Duration

	mu    sync.Mutex
	snap  *pebble.Snapshot // +checklocks:mu
	timer *time.Timer      // +checklocks:mu
	over  bool             // +checklocks:mu
}

// spareTime is how long a snapshot is kept, but in tests.
const spareTime = time.Second

// give closes snap, or keeps it.
func (s *spare) give(snap *pebble.Snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.snap != nil {
		return s.guard(snap.Close)
	}
	s.snap = snap
	if s.timer == nil {
		s.timer = time.AfterFunc(s.keep, s.drop)
	} else {
		s.timer.Reset(s.keep)
	}
	return nil
}

// drop closes the spare.
func (s *spare) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snap != nil {
		_ = s.guard(s.snap.Close) // it frees memory, and can't fail
		s.snap = nil
	}
}

// close closes the spare, and keeps none from now on.
func (s *spare) close() {
	s.mu.Lock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.drop()
}
