package history

import (
	"math"
	"time"
)

// A Millis is a time of day in milliseconds since 1970, UTC.
type Millis uint64

// MillisOf returns t, rounded up to a millisecond: nothing that waits for it is early. A
// time before 1970 is 0.
func MillisOf(t time.Time) Millis {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return Millis(max(0, ms))
}

// Time returns m as a time in UTC. One later than a time can be is the latest.
func (m Millis) Time() time.Time {
	return time.UnixMilli(int64(min(m, math.MaxInt64))).UTC()
}
