package lease

import (
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// Three clocks are in play, and none is believed alone:
//
//   - The monotonic clock of this process. It never jumps, and everything that can
//     be decided by it is. On Linux it stands still while the machine is suspended.
//   - The wall clock of this host. It goes on during a suspend, and may be set.
//   - The wall clocks of other hosts, believed to within MaxClockSkew.
//
// So a lease counts as long as both clocks of its owner say that it does, and a host
// that is judged by clocks of two hosts is given the benefit of every jump that one
// of them has made since its Store was opened.

// monotonic is the time by which this process measures how long something takes.
func monotonic() time.Time { return time.Now() }

// A steady is a wall clock that was right when it started, held against the
// monotonic one since: the two differ where the wall clock was set, or the machine
// suspended.
type steady struct {
	wall func() int64 // Unix ms

	mu   sync.Mutex
	at   time.Time // +checklocks:mu
	late int64     // the time at that moment, the later of the two  +checklocks:mu
	// began is when the clock was started, by both.
	began     time.Time
	beganWall int64
}

func (c *steady) start(wall func() int64) {
	c.wall = wall
	now := monotonic()
	c.began, c.at = now, now
	c.beganWall = wall()
	c.late = c.beganWall
}

// latest returns what time it is at the most: for what this host promises. It
// doesn't go back.
func (c *steady) latest() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := monotonic()
	c.late = max(c.wall(), c.late+now.Sub(c.at).Milliseconds())
	c.at = now
	return c.late
}

// earliest returns what time it is at the least: for what another host's promise is
// held against.
func (c *steady) earliest() int64 {
	return min(c.wall(), c.beganWall+monotonic().Sub(c.began).Milliseconds())
}

// A term is the time for which a renewal counts, from when it was sent: the row that
// it writes says that the lease lasts longer.
type term struct {
	sent time.Time
	wall int64 // when it was sent, by the wall clock
	ttl  time.Duration
	in   kv.Incarnation // of the engine that was asked

	said *said // what the row says
}

// holds says whether the term isn't over by either clock. A wall clock that was set
// back makes it doubtful, since it may have hidden a suspend.
func (t *term) holds(now time.Time, wall int64) bool {
	slack := margin(t.ttl)
	byWall := time.Duration(wall-t.wall) * time.Millisecond
	return now.Sub(t.sent) < t.ttl-slack && byWall < t.ttl-slack && byWall >= -slack
}

// margin is what is kept from either end of a lease of the length ttl: clocks of
// different machines run at speeds that differ by far less.
func margin(ttl time.Duration) time.Duration { return ttl / 10 }
