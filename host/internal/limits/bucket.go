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

// level returns when the bucket is full, which is at most as late as for an empty one: it was stored later only if the clock was set back.
func (r *Rule) level(spent, now int64) int64 {
	return min(max(spent, now), now+int64(r.Burst)*int64(r.Every))
}

// tokens returns how many there are.
func (r *Rule) tokens(spent, now int64) int {
	return r.Burst - int((r.level(spent, now)-now+int64(r.Every)-1)/int64(r.Every))
}

// take returns what spent is with one token less.
func (r *Rule) take(spent, now int64) int64 { return r.level(spent, now) + int64(r.Every) }

// wait returns how long it takes until there are n tokens, n being at most Burst.
func (r *Rule) wait(spent, now int64, n int) time.Duration {
	return time.Duration(max(r.level(spent, now)-now-int64(r.Burst-n)*int64(r.Every), 0))
}
