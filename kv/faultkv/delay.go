package faultkv

import (
	"context"
	"time"
)

// Delay has every call take the time of a round trip more, as if the engine were that far
// away: it waits before the engine below is asked, and goes on as soon as that has answered.
// 0, the initial state, is no distance. Calls that run already keep the distance that they
// began with.
//
// A call is what Counts counts, a question for an outcome besides. Of a scan that is its
// beginning, however many entries follow: that an engine fetches those of a long one in
// several trips isn't imitated. A context that ends meanwhile ends the call, which has not
// reached the engine then.
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
