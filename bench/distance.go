package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// An errand is an operation whose time is measured at some distances of the engine, by one
// actor that has no other to share its trips with.
type errand struct {
	name string
	open func(*stand)
}

// errands returns all there are, in the order of the table.
func errands() []errand {
	of := func(name string) errand {
		i := slices.IndexFunc(workloads(), func(w workload) bool { return w.name == name })
		return errand{name, workBy(alone, workloads()[i].subject())}
	}
	return []errand{
		of("sqlite/insert-1"), of("sqlite/point"), {"open", strangers(false)}, {"first row", strangers(true)},
		of("kv/put"), of("queue/cycle"), of("workflow/step"),
	}
}

// A journey is how long an errand took at one distance, as -json prints it, one object a line.
type journey struct {
	Name       string  `json:"name"`
	Subject    string  `json:"subject"`
	DistanceUS float64 `json:"distance_us"`
	// MedianUS and SlowestUS are of single operations, in microseconds.
	MedianUS  float64 `json:"median_us"`
	SlowestUS float64 `json:"slowest_us"`
	Ops       int     `json:"ops"`
	// TripsPerOp is how many calls of the engine an operation makes, one after the other: its
	// reads, commits and whatever else.
	TripsPerOp   float64 `json:"trips_per_op"`
	ReadsPerOp   float64 `json:"reads_per_op"`
	CommitsPerOp float64 `json:"commits_per_op"`
}

// unmeasured is how many operations of an errand come before those that count: the first
// ones find nothing in any cache.
const unmeasured = 8

// travel measures an errand at one distance, in a folder below the stand's: for a tenth of
// the rounds of the plan, but at least leastRounds operations.
func (e errand) travel(s *stand, trip time.Duration, p plan) (j journey, err error) {
	err = s.visit(func(*stand) {
		at := s.site
		at.far, at.trip = true, trip
		own := s.newStand(at, "errand")
		e.open(own)
		for range unmeasured {
			own.measured(1)
		}
		var took []float64
		var all tally
		for start := time.Now(); len(took) < leastRounds || time.Since(start) < p.round*time.Duration(p.rounds)/10; {
			check(s.ctx.Err())
			t := own.measured(1)
			took, all = append(took, micros(t.took)), all.plus(t, 1)
		}
		each := func(n int64) float64 { return float64(n) / float64(len(took)) }
		j = journey{
			Name: e.name, Subject: greenroomOn(at.on), DistanceUS: micros(trip),
			MedianUS: median(took), SlowestUS: slices.Max(took), Ops: len(took),
			TripsPerOp: each(all.reads() + all.counts.Snapshots + all.counts.Commits + all.counts.Syncs + all.counts.Attempts),
			ReadsPerOp: each(all.reads()), CommitsPerOp: each(all.counts.Commits),
		}
	})
	if err != nil {
		err = fmt.Errorf("%s at a distance of %v: %w", e.name, trip, err)
	}
	return j, err
}

// parseDistances reads the value of -distance. The engine beside its user is always one.
func parseDistances(list string) ([]time.Duration, error) {
	all := []time.Duration{0}
	for text := range strings.SplitSeq(list, ",") {
		trip, err := time.ParseDuration(text)
		if err != nil || trip < 0 {
			return nil, fmt.Errorf("%s: want durations, as in 1ms,5ms", list)
		}
		if !slices.Contains(all, trip) {
			all = append(all, trip)
		}
	}
	return all, nil
}

// measureDistances measures the errands that -run selects at o.distances.
func (o options) measureDistances(s *stand, out io.Writer) {
	heads := []string{"operation", "trips"}
	for _, trip := range o.distances {
		heads = append(heads, "µs at "+trip.String())
	}
	var rows [][]string
	for _, e := range errands() {
		if !o.run.MatchString(e.name) {
			continue
		}
		row := []string{e.name, ""}
		for _, trip := range o.distances {
			j := must(e.travel(s, trip, o.plan))
			o.object(out, j)
			row[1] = significant(j.TripsPerOp) // the same at every distance
			row = append(row, significant(j.MedianUS))
		}
		rows = append(rows, row)
	}
	o.table(out, 1, heads, rows)
}
