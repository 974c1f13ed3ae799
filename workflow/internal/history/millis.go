package history

import (
	"math"
	"time"
)

// A Millis is a time of day in milliseconds since 1970, UTC.
type Millis uint64

// Never is later than any time.
const Never Millis = math.MaxInt64

// MillisOf returns t, rounded up to a millisecond: nothing that waits for it is early. A
// time before 1970 is 0, and one that is too late to be stored Never.
func MillisOf(t time.Time) Millis {
	switch s := t.Unix(); {
	case s < 0:
		return 0
	case s > math.MaxInt64/1000-1:
		return Never
	}
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
