package queue

import "time"

// A retry says when dead letters that could not be stored are tried again: first after minBackoff, then after twice as long each
// time, up to maxBackoff, or when there is room. The lock of contents guards it.
type retry struct {
	at      int64 // when, Unix ms, 0 for now
	backoff time.Duration
	lacking int64 // the bytes that dead letters wait for, 0: none does
}

// Bounds of a backoff.
const (
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// failed puts the next try off.
func (r *retry) failed(now int64) {
	r.backoff = min(max(2*r.backoff, minBackoff), maxBackoff)
	r.at = after(now, r.backoff)
}

// done says that dead letters were stored.
func (r *retry) done() { r.at, r.backoff = 0, 0 }

// roomMade lets dead letters that wait for room be tried now, if there is enough.
func (r *retry) roomMade(room int64) {
	if r.lacking > 0 && room >= r.lacking {
		r.lacking, r.at = 0, 0
	}
}
