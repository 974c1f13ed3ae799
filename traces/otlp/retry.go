package otlp

import (
	"errors"
	"math/rand/v2"
	"time"
)

// A retry says how long to wait for the next attempt at one request.
type retry struct {
	opts  *ClientOptions
	began time.Time
	wait  time.Duration
}

func newRetry(opts *ClientOptions) *retry {
	return &retry{opts: opts, began: time.Now(), wait: opts.FirstWait}
}

// next returns how long to wait after an attempt that failed, and whether there is to be
// another.
func (r *retry) next(err error) (wait time.Duration, again bool) {
	if !retryable(err) {
		return 0, false
	}
	// Many who failed together should not come back together.
	wait = time.Duration(float64(r.wait) * (0.5 + rand.Float64()))
	r.wait = min(2*r.wait, r.opts.MaxWait)
	if status := (*StatusError)(nil); errors.As(err, &status) {
		wait = max(wait, status.After)
	}
	if r.opts.GiveUp >= 0 && time.Since(r.began)+wait > r.opts.GiveUp {
		return 0, false
	}
	return wait, true
}
