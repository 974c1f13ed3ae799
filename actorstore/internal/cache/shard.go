package cache

import "sync"

// maxHits bounds how often an entry of the main queue is spared.
const maxHits = 3

// A shard is a part of a cache: the entries of some of the hashes.
type shard struct {
	mu        sync.RWMutex
	limit     int64
	entries   map[uint64]*Entry // by hash; of two keys with the same one, the newer
	probation queue             // where entries begin
	main      queue             // those that were used again
	ghosts    ghosts
	door      door
	_         [64]byte // the lock of the next one is not in the same cache line
}

// +checklocks:s.mu
func (s *shard) put(e *Entry, written bool) {
	old := s.entries[e.hash]
	switch {
	case e.Size() > s.limit:
		if old != nil {
			s.drop(old)
		}
		return
	case old != nil && old.of == e.of && old.Key == e.Key:
		hits := old.hits.Load()
		if written { // which is using it
			hits = min(hits+1, maxHits)
		}
		e.hits.Store(hits)
		old.queue.replace(old, e)
	default:
		if old != nil { // another key with the same hash
			s.drop(old)
		}
		if s.ghosts.take(e.hash) {
			s.main.push(e)
		} else {
			s.probation.push(e)
		}
	}
	s.entries[e.hash] = e
	s.evict()
}

// +checklocks:s.mu
func (s *shard) drop(e *Entry) {
	e.queue.remove(e)
	delete(s.entries, e.hash)
}

// evict makes room. A quarter is for those on probation: that holds what was read
// ahead, for a few scans at once, until it is used.
//
// +checklocks:s.mu
func (s *shard) evict() {
	for s.probation.bytes+s.main.bytes > s.limit {
		if s.main.oldest == nil || s.probation.bytes > s.limit/4 {
			s.evictProbation()
		} else {
			s.evictMain()
		}
	}
}

// evictProbation decides about the oldest entry on probation. A page that was read
// ahead and then read once has one hit.
//
// +checklocks:s.mu
func (s *shard) evictProbation() {
	e := s.probation.oldest
	if e.hits.Load() > 1 && !e.of.dead.Load() {
		e.hits.Store(0)
		s.probation.remove(e)
		s.main.push(e)
		return
	}
	s.drop(e)
	s.ghosts.add(e.hash, len(s.entries))
}

// evictMain drops the oldest entry, or spares it as often as it was used.
//
// +checklocks:s.mu
func (s *shard) evictMain() {
	e := s.main.oldest
	hits := e.hits.Load()
	if hits == 0 || e.of.dead.Load() {
		s.drop(e)
		return
	}
	e.hits.Store(hits - 1)
	s.main.remove(e)
	s.main.push(e)
}

// sweep removes the entries of t that were deleted.
func (s *shard) sweep(t *tenant, cleared []clearing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.of == t && e.cleared(cleared) {
			s.drop(e)
		}
	}
}

// ghosts are the hashes of what was dropped lately, oldest first: about as many as
// there are entries.
type ghosts struct {
	in    map[uint64]struct{}
	order []uint64
	first int // in order; what is before is gone
}

// minGhosts is how many are remembered in any case.
const minGhosts = 16

// take forgets a hash, and says whether it was there.
func (g *ghosts) take(hash uint64) bool {
	_, ok := g.in[hash]
	delete(g.in, hash) // its place in order goes when its turn comes
	return ok
}

func (g *ghosts) add(hash uint64, entries int) {
	if _, ok := g.in[hash]; ok {
		return
	}
	g.in[hash] = struct{}{}
	g.order = append(g.order, hash)
	for len(g.order)-g.first > max(entries, minGhosts) {
		delete(g.in, g.order[g.first])
		g.first++
	}
	if g.first > len(g.order)/2 {
		g.order = append(g.order[:0], g.order[g.first:]...)
		g.first = 0
	}
}
