package persist

import (
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// A rule says when a cron event comes again.
type rule struct {
	expr string // five fields, six with seconds in front, or @daily and the like; "": no rule
	zone string // a name of the IANA time zone database; "": UTC
}

func (r rule) set() bool { return r.expr != "" }

// A timetable is a rule that can be followed.
//
// The parser's schedule is asked about clock faces alone, times without a zone. What
// they mean where clocks are set forward and back is decided here, in the way of
// Paul Vixie's cron (https://man.freebsd.org/cgi/man.cgi?query=cron&sektion=8):
//
//   - Times of day come once a day. One that a clock skips comes at the first moment
//     after the gap, one that a clock shows twice comes the first time.
//   - Where minute or hour begin with *, the rule says what clocks show: what is skipped
//     is left out, what is shown twice comes twice.
type timetable struct {
	faces cron.Schedule
	every time.Duration // of @every, else 0
	zone  *time.Location
	often bool // the minute or the hour begins with *
}

// parse returns the timetable of a rule. Errors are ErrJob.
func (r rule) parse() (*timetable, error) {
	switch {
	case len(r.expr) > maxExpression:
		return nil, fmt.Errorf("%w: a cron expression of %d bytes, limit %d", ErrJob, len(r.expr), maxExpression)
	case len(r.zone) > maxZone:
		return nil, fmt.Errorf("%w: a time zone of %d bytes, limit %d", ErrJob, len(r.zone), maxZone)
	case r.zone == "Local":
		// It means something else on every machine, and the actor may move.
		return nil, fmt.Errorf("%w: time zone %q: name one, such as Europe/Berlin", ErrJob, r.zone)
	case strings.Contains(r.expr, "TZ="):
		return nil, fmt.Errorf("%w: cron expression %q: the time zone stands apart", ErrJob, r.expr)
	}
	zone, err := time.LoadLocation(r.zone)
	if err != nil {
		return nil, fmt.Errorf("%w: time zone %q: %w", ErrJob, r.zone, err)
	}
	parser, err := cron.TryNewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month |
		cron.Dow | cron.Descriptor | cron.DowOrDom)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJob, err)
	}
	faces, err := parser.WithMaxSearchYears(maxYears).Parse(r.expr)
	if err != nil {
		return nil, fmt.Errorf("%w: cron expression %q: %w", ErrJob, r.expr, err)
	}
	t := &timetable{faces: faces, zone: zone, often: often(r.expr)}
	if d, ok := faces.(cron.ConstantDelaySchedule); ok {
		t.every = d.Delay
	}
	return t, nil
}

// often says whether an expression follows the clock rather than the days.
func often(expr string) bool {
	f := strings.Fields(expr)
	if len(f) == 6 {
		f = f[1:] // seconds
	}
	return len(f) == 5 && (f[0][0] == '*' || f[1][0] == '*') || expr == "@hourly"
}

// maxYears bounds how far away the next time may be: a February 29 may be eight years.
const maxYears = 9

// maxStretches bounds the stretches between two changes of the clock that next looks
// through: there are about two a year, and where a rule goes on after the last known change
// each year ends one, too.
const maxStretches = 8 * maxYears

// stretch returns bounds of a time around t in which the clock isn't changed.
func stretch(t time.Time) (began, ended time.Time) {
	began, ended = t.ZoneBounds()
	// In the last day of a leap year after the last change that the database has, the end
	// that Go says has passed.
	if !ended.IsZero() && !ended.After(t) {
		ended = t.Add(24 * time.Hour)
	}
	return began, ended
}

// next returns the first time after t, in UTC, and false if t is behind the last one.
func (c *timetable) next(t time.Time) (time.Time, bool) {
	if c.every > 0 {
		return t.Add(c.every).UTC().Truncate(time.Second), true
	}
	after := t.In(c.zone) // strictly
	for range maxStretches {
		began, ended := stretch(after.Add(1))
		ahead := aheadOfUTC(after.Add(1))
		face := c.faces.Next(after.UTC().Add(ahead))
		if face.IsZero() {
			return time.Time{}, false
		}
		at := face.Add(-ahead).In(c.zone)
		switch {
		case !ended.IsZero() && !at.Before(ended):
			if !c.often && face.Before(ended.UTC().Add(aheadOfUTC(ended))) {
				return ended.UTC(), true // the clock skips it
			}
			after = ended.Add(-1)
		case !c.often && !began.IsZero() && face.Before(began.UTC().Add(aheadOfUTC(began.Add(-1)))):
			after = at // the clock showed it before
		default:
			return at.UTC(), true
		}
	}
	return time.Time{}, false
}

// aheadOfUTC returns by how much clocks in the zone of t show more than UTC then.
func aheadOfUTC(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}
