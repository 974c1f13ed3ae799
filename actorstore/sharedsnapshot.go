package actorstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// shared is the engine's snapshot that several actors of a near engine may use at once.
// Before every transaction that writes, a writer pins the state that readers go on to see;
// of some hundred actors that wait for the same fsync each would make a snapshot of its
// own. But what an actor needs is any state since its last commit, whatever others have
// committed: so one will do for all of them.
type shared struct {
	clock atomic.Uint64 // counts landed commits, of all actors of the Store

	mu     sync.Mutex
	newest *sharedSnapshot // the one that was begun last, nil when it is closed  +checklocks:mu
}

// A snapshot is given to no further actor when so many commits have landed, or so much time has
// passed: else readers could keep an old one for ever, handing it on. Not every commit to
// the engine is one of this Store.
const (
	maxShared     = 512
	maxSharedTime = 100 * time.Millisecond
)

// A sharedSnapshot is a snapshot of the engine, and its users.
type sharedSnapshot struct {
	kv.Snapshot
	of    *shared
	at    uint64 // the clock before it was taken
	since time.Time
	refs  int // guarded by of.mu
}

// landed is the time of a commit that everybody sees now.
func (s *shared) landed() uint64 { return s.clock.Add(1) }

// take returns a snapshot of a state with everything that landed up to since. The
// caller closes it, once.
func (s *shared) take(ctx context.Context, eng kv.Engine, since uint64) (kv.Snapshot, error) {
	s.mu.Lock()
	now := s.clock.Load()
	if n := s.newest; n != nil && n.at >= since && now-n.at < maxShared && time.Since(n.since) < maxSharedTime {
		n.refs++
		s.mu.Unlock()
		return n, nil
	}
	s.mu.Unlock()
	snap, err := eng.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	n := &sharedSnapshot{Snapshot: snap, of: s, at: now, since: time.Now(), refs: 1}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil || s.newest.at <= now {
		s.newest = n
	}
	return n, nil
}

// Close gives the snapshot back; the last one closes it.
func (n *sharedSnapshot) Close() error {
	s := n.of
	s.mu.Lock()
	n.refs--
	last := n.refs == 0
	if last && s.newest == n {
		s.newest = nil
	}
	s.mu.Unlock()
	if !last {
		return nil
	}
	return n.Snapshot.Close()
}
