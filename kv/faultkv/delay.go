package faultkv

import (
	"context"
	"time"
)

// Delay makes every call take one round trip longer, as if the engine were that far
// away: the call waits before it reaches the engine below, and returns as soon as the engine
// answers. 0, the initial state, means no delay. Calls that are running keep the delay that
// they began with.
//
// A call is what Counts counts, and also a question for an outcome. A scan takes one trip
// at its beginning, however many entries follow: Delay doesn't imitate an engine that fetches
// a long scan in several trips. If the context ends during the delay, the call ends before it
// reaches the engine.
func (e *Engine) Delay(trip time.Duration) {
	e.change(func(p *plan) { p.trip = max(trip, 0) })
}

// call reports whether a call of the engine begins at p.
func (p Point) call() bool { return p.before() && p != BeforeEntry }

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
