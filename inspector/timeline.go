package inspector

import (
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/admin"
)

// maxIndent bounds how far a row of a tree is indented.
const maxIndent = 8

// A timeline is the time from the first to the last of some moments.
type timeline struct{ from, to time.Time }

// A bar is a part of a timeline, in thousandths of its width.
type bar struct {
	X, Width float64
	Text     string // how long it took
}

// add makes a timeline have some times that aren't zero.
func (l *timeline) add(times ...time.Time) {
	for _, t := range times {
		if t.IsZero() {
			continue
		}
		if l.from.IsZero() || t.Before(l.from) {
			l.from = t
		}
		if t.After(l.to) {
			l.to = t
		}
	}
}

// bar returns the bar from start to end, which is open if it is zero; nil without a start.
func (l *timeline) bar(start, end time.Time) *bar {
	if start.IsZero() {
		return nil
	}
	b, open := &bar{Width: 1000}, end.IsZero()
	if open {
		end = l.to
	}
	if all := l.to.Sub(l.from); all > 0 {
		b.X = 1000 * float64(start.Sub(l.from)) / float64(all)
		b.Width = 1000 * float64(end.Sub(start)) / float64(all)
	}
	b.Width = max(b.Width, 4)
	b.X = min(b.X, 1000-b.Width)
	if b.Text = duration(end.Sub(start)); open {
		b.Text = "running"
	}
	return b
}

// duration is one in three digits.
func duration(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return d.String()
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	case d < time.Minute:
		return fmt.Sprintf("%.3g s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// parseTime returns a time of the API, the zero time for "".
func parseTime(t admin.Time) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, string(t)) // "" is the zero time
	return at
}
