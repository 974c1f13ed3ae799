package limits

import "time"

// A Rule is what a limit allows.
type Rule struct {
	// Concurrency bounds the permits that are held at a time; 0 means that they are not bounded.
	Concurrency int
	// Every is the mean time between two permits; 0 means that their rate is not bounded.
	Every time.Duration
	// Burst is how many permits a pause saves up, at least 1. Burst times Every must not be beyond math.MaxInt64 nanoseconds.
	Burst int
}

// A token bucket is stored as one number, as in the Generic Cell Rate Algorithm of ATM (ITU-T I.371): the time, in Unix nanoseconds, at which it is full
// again. It holds Burst tokens, and gets one every Every.

// maxSkew is by how much the clocks of hosts may differ. A bucket that is full later than an empty one would be, by more than that, was stored before the clock was set back.
const maxSkew = time.Minute

// reset returns spent, or that of an empty bucket if the clock was set back.
func (r *Rule) reset(spent, now int64) int64 {
	if empty := now + int64(r.Burst)*int64(r.Every); spent-int64(maxSkew) > empty {
		return empty
	}
	return spent
}

// tokens returns how many there are.
func (r *Rule) tokens(spent, now int64) int {
	return max(r.Burst-int((max(spent-now, 0)+int64(r.Every)-1)/int64(r.Every)), 0)
}

// take returns what spent is with one token less.
func (r *Rule) take(spent, now int64) int64 { return max(spent, now) + int64(r.Every) }

// wait returns how long it takes until there are n tokens, n being at most Burst.
func (r *Rule) wait(spent, now int64, n int) time.Duration {
	return time.Duration(max(spent-now-int64(r.Burst-n)*int64(r.Every), 0))
}
