package wal

import (
	"sync"
	"time"
)

// A syncer shares syncs among the goroutines that wait for stable storage: while one group's sync runs, the next group gathers. Its
// fields but turn are guarded by the mu of its Log, which callers of its methods hold.
type syncer struct {
	turn     sync.Mutex // held by the goroutine that syncs
	synced   uint64     // up to which records are on stable storage
	taken    uint64     // up to which atWork syncs
	atWork   *group     // that is being synced, if any
	waiting  *group     // that is synced next
	idle     *group     // that can be used again, if any
	crowd    bool       // several waited for the last sync
	patience patience   // of a leader with other goroutines
}

// A group is the goroutines that wait for the same sync. The first one leads it: it does the work.
type group struct {
	led  bool
	done chan struct{} // closed after the sync, nil if the leader is alone
	err  error
}

// join returns the group whose sync takes in the record with a number, and whether the caller leads it. Others wait until it is done.
func (s *syncer) join(number uint64) (g *group, leads bool) {
	g = s.waiting
	if s.atWork != nil && s.taken >= number {
		g = s.atWork
	}
	if !g.led {
		g.led = true
		return g, true
	}
	if g.done == nil {
		g.done = make(chan struct{})
	}
	return g, false
}

// begin notes that g is synced, up to the last record; later ones are the next group's.
func (s *syncer) begin(g *group, last uint64) {
	s.waiting, s.atWork, s.taken, s.idle = s.idle, g, last, nil
	if s.waiting == nil {
		s.waiting = new(group)
	}
}

// end tells a group of its sync, if there is one.
func (s *syncer) end(g *group, err error) {
	s.atWork = nil
	if g == nil {
		return
	}
	if s.crowd = g.done != nil; s.crowd {
		g.err = err
		close(g.done)
		return
	}
	*g = group{}
	s.idle = g
}

// A patience says whether it is worth it to let other goroutines go on before a sync: they may be busy with
// anything, for milliseconds each.
type patience struct {
	left  int // how many syncs don't wait from now on
	pause int // how many did not after the last time that it took too long
}

const (
	// maxWait is how long a leader waits for each record of others.
	maxWait = time.Millisecond
	// minPause and maxPause bound how many syncs don't wait after one that took longer.
	minPause = 16
	maxPause = 4096
)

// any reports whether a sync waits. It is asked once for each.
func (p *patience) any() bool {
	if p.left == 0 {
		return true
	}
	p.left--
	return false
}

// learn notes how long it took until others went on, and how many records they appended.
func (p *patience) learn(took time.Duration, records uint64) {
	switch {
	case took > maxWait*time.Duration(max(1, records)):
		p.pause = min(max(minPause, 2*p.pause), maxPause)
		p.left = p.pause
	case p.pause > 0:
		p.pause--
	}
}
