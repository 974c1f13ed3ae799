package lease

import (
	"sync"
	"time"
)

// A sighting is when another host's row was first seen as it is. It is of the same
// count as long as nothing was renewed.
type sighting struct {
	count uint64
	since time.Time
	gone  bool // for ever: ids of hosts are never used again
}

// sightings are those of the other hosts of an engine.
type sightings struct {
	mu sync.Mutex
	of map[[16]byte]sighting // +checklocks:mu
}

// sight notes that a host was seen, and returns for how long it has been the same.
func (s *sightings) sight(host [16]byte, count uint64, before time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.of[host]; ok && old.count == count {
		return before.Sub(old.since)
	}
	s.makeRoom()
	s.of[host] = sighting{count: count, since: monotonic()}
	return 0
}

// bury notes that a host has gone.
func (s *sightings) bury(host [16]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom()
	s.of[host] = sighting{gone: true}
}

// forget forgets when a host was seen.
func (s *sightings) forget(host [16]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, host)
}

func (s *sightings) isGone(host [16]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[host].gone
}

// maxSeen bounds how many hosts are remembered; to forget one costs a read, or a
// longer wait.
const maxSeen = 4096

// +checklocks:s.mu
func (s *sightings) makeRoom() {
	if len(s.of) >= maxSeen {
		clear(s.of)
	}
}
