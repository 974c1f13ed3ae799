package persist

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests know the zones, whatever the machine does
)

// follow returns the next n times after a time of day in a zone, as clocks show them.
func follow(t *testing.T, r rule, from string, n int) string {
	t.Helper()
	tt, err := r.parse()
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04", from, tt.zone)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for range n {
		next, ok := tt.next(at)
		if !ok {
			all = append(all, "never")
			break
		}
		if !next.After(at) {
			t.Fatalf("%v after %v", next, at)
		}
		at = next
		all = append(all, at.In(tt.zone).Format("01-02 15:04:05 -0700"))
	}
	return strings.ReplaceAll(strings.Join(all, ", "), ":00 ", " ")
}

// TestCronClocks has rules meet clocks that are set forward and back.
func TestCronClocks(t *testing.T) {
	const ny, lh, sp, apia = "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia"
	for _, c := range []struct {
		name, expr, zone, from, want string
	}{
		{"UTC", "30 2 * * *", "", "2024-03-10 00:00", "03-10 02:30 +0000, 03-11 02:30 +0000"},
		{"skipped", "30 2 * * *", ny, "2024-03-09 12:00", "03-10 03:00 -0400, 03-11 02:30 -0400"},
		{"skipped, at the beginning of the gap", "0 2 * * *", ny, "2024-03-09 12:00", "03-10 03:00 -0400, 03-11 02:00 -0400"},
		{"behind the gap", "0 3 * * *", ny, "2024-03-09 12:00", "03-10 03:00 -0400, 03-11 03:00 -0400"},
		{"skipped and behind the gap are one", "0,30 2,3 * * *", ny, "2024-03-09 12:00", "03-10 03:00 -0400, 03-10 03:30 -0400"},
		{"shown twice", "30 1 * * *", ny, "2024-11-02 12:00", "11-03 01:30 -0400, 11-04 01:30 -0500"},
		{"shown twice, at the beginning", "0 1 * * *", ny, "2024-11-02 12:00", "11-03 01:00 -0400, 11-04 01:00 -0500"},
		{"after what is shown twice", "0 2 * * *", ny, "2024-11-02 12:00", "11-03 02:00 -0500, 11-04 02:00 -0500"},
		{"every half hour over the gap", "*/30 * * * *", ny, "2024-03-10 01:00", "03-10 01:30 -0500, 03-10 03:00 -0400, 03-10 03:30 -0400"},
		{"every half hour in an hour shown twice", "*/30 * * * *", ny, "2024-11-03 00:45",
			"11-03 01:00 -0400, 11-03 01:30 -0400, 11-03 01:00 -0500, 11-03 01:30 -0500, 11-03 02:00 -0500"},
		{"every other hour over the gap", "0 */2 * * *", ny, "2024-03-09 23:00", "03-10 00:00 -0500, 03-10 04:00 -0400"},
		{"hourly", "@hourly", ny, "2024-11-03 00:30", "11-03 01:00 -0400, 11-03 01:00 -0500, 11-03 02:00 -0500"},
		{"a day without midnight", "0 0 * * *", sp, "2018-11-03 12:00", "11-04 01:00 -0200, 11-05 00:00 -0200"},
		{"daily, a day without midnight", "@daily", sp, "2018-11-03 12:00", "11-04 01:00 -0200, 11-05 00:00 -0200"},
		{"half an hour skipped", "15 2 * * *", lh, "2024-10-05 12:00", "10-06 02:30 +1100, 10-07 02:15 +1100"},
		{"half an hour shown twice", "45 1 * * *", lh, "2024-04-06 12:00", "04-07 01:45 +1100, 04-08 01:45 +1030"},
		{"a day that there was not", "0 12 * * *", apia, "2011-12-29 13:00", "12-31 00:00 +1400, 12-31 12:00 +1400"},
		{"either day", "0 12 13 * 5", "", "2024-09-01 12:00", "09-06 12:00 +0000, 09-13 12:00 +0000, 09-20 12:00 +0000"},
		{"leap day", "0 0 29 2 *", ny, "2024-03-01 00:00", "02-29 00:00 -0500"},
		{"no leap day for eight years", "0 0 29 2 *", ny, "2096-03-01 00:00", "02-29 00:00 -0500"},
		{"the end of a leap year", "0 12 * * *", ny, "2096-12-29 13:00", "12-30 12:00 -0500, 12-31 12:00 -0500, 01-01 12:00 -0500"},
		{"hours at the end of a leap year", "0 */12 * * *", ny, "2096-12-30 11:00", "12-30 12:00 -0500, 12-31 00:00 -0500, 12-31 12:00 -0500, 01-01 00:00 -0500"},
		{"a step is no star", "0 0 13 * */6", "", "2024-01-07 12:00", "01-13 00:00 +0000, 01-14 00:00 +0000, 01-20 00:00 +0000"},
		{"any day of the week", "0 0 13 * ?", "", "2024-01-07 12:00", "01-13 00:00 +0000, 02-13 00:00 +0000"},
		{"the last day of long months", "0 0 31 * *", "", "2023-01-31 00:00", "03-31 00:00 +0000, 05-31 00:00 +0000, 07-31 00:00 +0000, 08-31 00:00 +0000"},
		{"the end of the year", "59 23 31 12 *", ny, "2023-12-31 23:59", "12-31 23:59 -0500, 12-31 23:59 -0500"},
		{"before the end of February", "0 12 28-29 2 *", "", "2023-02-28 00:00", "02-28 12:00 +0000, 02-28 12:00 +0000, 02-29 12:00 +0000, 02-28 12:00 +0000"},
		{"never", "0 0 30 2 *", ny, "2024-03-01 00:00", "never"},
		{"seconds", "*/20 59 23 31 12 *", "", "2024-01-01 00:00", "12-31 23:59 +0000, 12-31 23:59:20 +0000"},
		{"every", "@every 90m", ny, "2024-03-10 01:00", "03-10 03:30 -0400, 03-10 05:00 -0400"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := follow(t, rule{c.expr, c.zone}, c.from, strings.Count(c.want, ",")+1)
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestCronRefuses looks at texts that are not rules.
func TestCronRefuses(t *testing.T) {
	for _, r := range []rule{
		{"", ""}, {"* * * *", ""}, {"61 * * * *", ""}, {"a b c d e", ""}, {"@nonsense", ""},
		{"0 0 * * *", "Mars/Olympus"}, {"0 0 * * *", "Local"}, {"CRON_TZ=UTC 0 0 * * *", ""}, {"TZ=UTC 0 0 * * *", ""},
		{"0 0 * * " + strings.Repeat("1,", 50) + "1", ""}, {"0 0 * * *", strings.Repeat("x", maxZone+1)},
		{"@every 1ms", ""}, {"* * * * * * *", ""},
	} {
		if _, err := r.parse(); !errors.Is(err, ErrJob) {
			t.Errorf("%q in %q: %v", r.expr, r.zone, err)
		}
	}
}

// FuzzCron follows any expression: each time is later than the one before, and
// shown by clocks as the rule has it unless the clock was set just then.
func FuzzCron(f *testing.F) {
	f.Add("30 2 * * *", "America/New_York", int64(1710000000))
	f.Add("*/7 1 * * *", "Australia/Lord_Howe", int64(1712400000))
	f.Add("@every 1h", "", int64(-1))
	f.Fuzz(func(t *testing.T, expr, zone string, from int64) {
		tt, err := rule{expr, zone}.parse()
		if err != nil {
			if !errors.Is(err, ErrJob) {
				t.Errorf("an error of another kind: %v", err)
			}
			return
		}
		at := time.Unix(from%(1<<33), 0)
		for range 3 {
			next, ok := tt.next(at)
			if !ok {
				return
			}
			if !next.After(at) {
				t.Fatalf("%q in %q: %v after %v", expr, zone, next, at)
			}
			at = next
		}
	})
}

// TestCronAgainstClocks compares next with a look at every minute of the days around
// the changes of a clock.
func TestCronAgainstClocks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	zones := []string{"America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Europe/Dublin", "Africa/Casablanca", "UTC"}
	for range 150 {
		zone := zones[rnd.IntN(len(zones))]
		minute, hour := strconv.Itoa(rnd.IntN(60)), strconv.Itoa(rnd.IntN(4))
		if rnd.IntN(2) == 0 {
			minute = "*/" + strconv.Itoa(1+rnd.IntN(40))
		}
		if rnd.IntN(2) == 0 {
			hour = "*"
		}
		r := rule{minute + " " + hour + " * * *", zone}
		tt, err := r.parse()
		if err != nil {
			t.Fatal(err)
		}
		from := time.Date(2017, 1, 1, 0, 0, 0, 0, tt.zone).AddDate(0, 0, rnd.IntN(500))
		if _, end := from.ZoneBounds(); !end.IsZero() {
			from = end.Add(-time.Duration(rnd.IntN(30*60)) * time.Minute)
		}
		got, _ := tt.next(from)
		if want := lookAtClocks(tt, from.UTC().Truncate(time.Minute)); !got.Equal(want) {
			t.Errorf("%q in %s after %v: got %v, want %v", r.expr, zone, from, got.In(tt.zone), want.In(tt.zone))
		}
	}
}

// lookAtClocks returns the first minute after t at which a clock shows what the
// timetable says, or at which it has skipped that.
func lookAtClocks(tt *timetable, t time.Time) time.Time {
	shows := func(face time.Time) bool { return tt.faces.Next(face.Add(-time.Second)).Equal(face) }
	face := func(t time.Time) time.Time { return t.Add(aheadOfUTC(t.In(tt.zone))) }
	for {
		before := face(t)
		t = t.Add(time.Minute)
		now := face(t)
		if tt.often {
			if shows(now) {
				return t
			}
			continue
		}
		for f := before.Add(time.Minute); f.Before(now); f = f.Add(time.Minute) {
			if shows(f) {
				return t // skipped
			}
		}
		shown := false // in the three hours before
		for e := t.Add(-3 * time.Hour); e.Before(t); e = e.Add(time.Minute) {
			shown = shown || face(e).Equal(now)
		}
		if shows(now) && !shown {
			return t
		}
	}
}
