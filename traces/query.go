package traces

import (
	"slices"
	"time"
)

// A Query selects spans. The zero Query selects all.
type Query struct {
	// Start and End select the spans of which something was recorded in [Start, End),
	// and show them as they were before End: an event, a status or an end that came later
	// is not there. A zero time means without bound. What comes before Start is there.
	Start, End time.Time
	// TraceID selects the spans of one trace, unless it is zero. It is looked up in an
	// index.
	TraceID TraceID
	// Name selects the spans of that name, unless it is "".
	Name string
	// Match selects the spans for which it returns true, unless it is nil: by status, by
	// attributes, whatever there is. It must not keep the span, and is asked once for each
	// that everything else selects.
	Match func(*SpanData) bool
	// Status selects the spans with one of these codes, unless there are none.
	Status []StatusCode
	// MinDuration and MaxDuration select the spans that took at least, and less than,
	// that long; MaxDuration 0 means without bound. With either, spans that run are not selected.
	MinDuration, MaxDuration time.Duration
	// After selects the spans behind the last one of an earlier Result of the same query, which
	// is the next page. A span that began before all that is still stored may have moved.
	After Position
	// Limit is the largest number of spans: the first ones by the time of the first
	// record in the range. 0 means Options.MaxRead, which is also the most; a negative
	// number selects nothing.
	Limit int
	// MaxChunks bounds the chunks that are read because a span began in or before them,
	// and not for the range itself. 0 means 64.
	MaxChunks int
}

// A Result is what Read has found.
type Result struct {
	Spans []SpanData // by the time of their first record in the range
	// Last is the position of the last one, zero if there are none.
	Last Position
	// Limit is the limit that was used, 0 when nothing could be selected.
	Limit int
	// Clamped says that there may be more spans than Spans: the Limit that was asked for
	// was lowered, or there were more.
	Clamped bool
	// Damaged are chunks that could not be read; they were skipped.
	Damaged []Damage
	// Chunks is how many chunks were read from the store.
	Chunks int
}

// A Damage is a chunk that can't be read.
type Damage struct {
	Key   []byte // of the actor
	Words string // the key for people
	Err   error  // wraps actorstore.ErrCorrupt
}

// matches reports whether the query selects the span, by what only a whole one tells.
func (q *Query) matches(d *SpanData) bool {
	if q.Name != "" && d.Name != q.Name || !q.TraceID.IsZero() && d.TraceID != q.TraceID {
		return false
	}
	if len(q.Status) > 0 && !slices.Contains(q.Status, d.Status.Code) {
		return false
	}
	if q.MinDuration > 0 || q.MaxDuration > 0 {
		took := d.Duration()
		if d.Running() || took < q.MinDuration || q.MaxDuration > 0 && took >= q.MaxDuration {
			return false
		}
	}
	return q.Match == nil || q.Match(d)
}

// behind reports whether a span whose first record in the range is at m is behind After.
func (q *Query) behind(m moment) bool { return q.After.IsZero() || m.position().compare(q.After) > 0 }

// filters reports whether spans have to be put together to know whether they are selected.
func (q *Query) filters() bool {
	return !q.After.IsZero() || q.Name != "" || len(q.Status) > 0 || q.MinDuration > 0 || q.MaxDuration > 0 || q.Match != nil
}

// bound returns the time in Unix ns, or what no time is.
func bound(t time.Time, none uint64) uint64 {
	if t.IsZero() {
		return none
	}
	return unixNano(t)
}
