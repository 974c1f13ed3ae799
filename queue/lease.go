package queue

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// A state is where a message stands between being stored and being settled.
type state uint8

const (
	ready   state = iota // visible
	delayed              // visible later
	leased               // visible later unless it is settled before
)

var stateNames = [...]string{"ready", "delayed", "leased"}

// A lease is what says when a message is visible, and to whom it belongs until then.
type lease struct {
	state      state
	at         int64  // visible from then on, Unix ms; 0 if that was always so
	deliveries uint32 // how often it was handed out
	grant      *grant // of the last time, nil if that was before the queue was opened
	since      int64  // when the attempt began whose end isn't known, Unix ms, or 0
}

// fits reports whether a receipt is that of the lease. A receipt without a nonce may have
// been given before the queue was opened.
func (l *lease) fits(r Receipt) bool {
	switch g := l.grant; {
	case l.state != leased || l.deliveries != r.Deliveries:
		return false
	case g == nil:
		return r.Nonce == 0
	default:
		return r.Nonce == g.nonce || r.Nonce == 0 && g.landed.Load() != 0 && g.stored
	}
}

// A grant is one handing out of a message by this Queue.
type grant struct {
	nonce  uint64 // not 0
	stored bool   // the record says it; of no meaning before the commit has landed
	// landed is the number of the commit with which the message was handed out, 0 before.
	landed atomic.Uint64
}

func newGrant() *grant {
	for {
		if n := rand.Uint64(); n != 0 {
			return &grant{nonce: n}
		}
	}
}

// durable reports whether the lease is on stable storage, if the commits up to the one numbered upTo are.
func (g *grant) durable(upTo uint64) bool {
	n := g.landed.Load() // after that stored is what it is
	return n != 0 && g.stored && n <= upTo
}

// after returns the millisecond at which d from now is over. Any d will do: what rounds it
// up is not added to it, which may be Forever.
func after(now int64, d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	if ms > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + ms
}

// sooner returns the time that is back before at, both in ms; never stays never.
func sooner(at, back int64) int64 {
	if at == math.MaxInt64 || back <= 0 {
		return at
	}
	return at - back
}
