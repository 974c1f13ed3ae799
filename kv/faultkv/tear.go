package faultkv

import (
	"errors"
	"sync/atomic"
)

// ErrTorn is what everything returns after the last commit that a Tear let through.
var ErrTorn = errors.New("faultkv: torn")

// A tear is the death of the process after so many commits.
type tear struct {
	room atomic.Int64 // commits that may still go out
	togo atomic.Int64 // commits that may still land
}

// Tear lets n more commits be applied; then every operation fails with ErrTorn, as
// if the process had died between two parts of a write, until Heal revives it. The
// nth commit is acknowledged. The engine below holds exactly the commits that landed.
// A commit that the engine below refuses isn't one of the n, and a commit that arrives
// while the last of them are under way is too late. A new Tear replaces the one before.
func (e *Engine) Tear(n int) {
	t := new(tear)
	t.room.Store(int64(n))
	t.togo.Store(int64(n))
	e.change(func(p *plan) { p.tear = t })
}

// dead reports whether all that may land has landed.
func (t *tear) dead() bool { return t != nil && t.togo.Load() <= 0 }

// admit reports whether one more commit may go out.
func (t *tear) admit() bool {
	if t == nil || t.room.Add(-1) >= 0 {
		return true
	}
	t.room.Add(1)
	return false
}

// done ends a commit that was admitted.
func (t *tear) done(applied bool) {
	switch {
	case t == nil:
	case applied:
		t.togo.Add(-1)
	default:
		t.room.Add(1)
	}
}
