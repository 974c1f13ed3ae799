package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// An errand is an operation whose time is measured at some distances of the engine, by one
// actor that has nobody to share its trips with.
type errand struct {
	name string
	open func(ctx context.Context, at site) (runner, error)
}

// errands returns all there are, in the order of the table.
func errands(engine string) []errand {
	subject := "greenroom-" + engine
	var all []errand
	for _, w := range workloads() {
		if w.name == "sqlite/insert-1" || w.name == "sqlite/point" {
			all = append(all, errand{w.name, w.side(subject).open})
		}
	}
	all = append(all,
		errand{"open", func(ctx context.Context, at site) (runner, error) { return openStrangers(ctx, at, false) }},
		errand{"first row", func(ctx context.Context, at site) (runner, error) { return openStrangers(ctx, at, true) }})
	for _, j := range []job{putJob(), cycleJob(), stepJob()} {
		all = append(all, errand{j.name, j.side(engine, 1).open})
	}
	return all
}

// strangers open a database of which their process knows nothing, each with a store of its
// own on one engine. What is measured is either the way to a connection, or the first row, of
// a table as large as that of sqlite/scan: each another one, since a database that is opened
// again is read ahead where it was read the last time.
type strangers struct {
	engine *faultkv.Engine
	row    bool
	rows   int
	next   int
	spent  time.Duration
	asked  faultkv.Counts
}

var _ clocked = (*strangers)(nil)

// rowStride is so far that the rows are of different pages, and no divisor of their number.
const rowStride = 7919

func openStrangers(ctx context.Context, at site, row bool) (_ runner, err error) {
	engine, err := openEngine(ctx, at)
	if err != nil {
		return nil, err
	}
	s := &strangers{engine: faultkv.New(engine), row: row, rows: at.sizes.scan}
	err = s.enter(ctx, func(v *visitor) error {
		c, leave, err := v.enter(ctx, 0)
		if err != nil {
			return err
		}
		return errors.Join(load(c, at.sizes.scan), c.Close(), leave())
	})
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// enter does something with a store that is open for it alone.
func (s *strangers) enter(ctx context.Context, do func(*visitor) error) error {
	store, err := openStore(ctx, s.engine)
	if err != nil {
		return err
	}
	return errors.Join(do(actorDoors(store, s.engine)), store.Close())
}

func (s *strangers) run(ctx context.Context, n int) error {
	for range n {
		if err := s.enter(ctx, func(v *visitor) error { return s.visit(ctx, v) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *strangers) visit(ctx context.Context, v *visitor) error {
	clock := s.start()
	c, leave, err := v.enter(ctx, 0)
	if err != nil {
		return err
	}
	if s.row {
		clock = s.start()
		s.next = (s.next + rowStride) % s.rows
		err = readRow(c, 1+s.next)
	}
	clock()
	return errors.Join(err, c.Close(), leave())
}

// start begins to measure; what it returns ends that.
func (s *strangers) start() (stop func()) {
	before, start := s.engine.Counts(), time.Now()
	return func() {
		s.spent += time.Since(start)
		s.asked = plus(s.asked, minus(s.engine.Counts(), before))
	}
}

func (s *strangers) clock() time.Duration { return s.spent }

func (s *strangers) counts() faultkv.Counts { return s.asked }

func (s *strangers) close() error { return s.engine.Close() }

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

// travel measures an errand at one distance, in a folder below at.dir: for a tenth of the
// rounds of the plan, but at least leastRounds operations.
func (e errand) travel(ctx context.Context, at site, trip time.Duration, p plan) (j journey, err error) {
	dir, err := os.MkdirTemp(at.dir, "errand-")
	if err != nil {
		return j, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	at.dir, at.far, at.trip = dir, true, trip
	r, err := e.open(ctx, at)
	if err != nil {
		return j, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for range unmeasured {
		if err := r.run(ctx, 1); err != nil {
			return j, err
		}
	}
	before := r.counts()
	took, err := oneByOne(ctx, r, p)
	if err != nil {
		return j, err
	}
	asked := minus(r.counts(), before)
	each := func(n int64) float64 { return float64(n) / float64(len(took)) }
	return journey{
		Name: e.name, Subject: "greenroom-" + at.engine, DistanceUS: micros(trip),
		MedianUS: median(took), SlowestUS: slices.Max(took), Ops: len(took),
		TripsPerOp: each(asked.Gets + asked.Scans + asked.Snapshots + asked.Commits + asked.Syncs + asked.Attempts),
		ReadsPerOp: each(asked.Gets + asked.Scans), CommitsPerOp: each(asked.Commits),
	}, nil
}

// oneByOne runs single operations and returns how long each took, in microseconds.
func oneByOne(ctx context.Context, r runner, p plan) (took []float64, err error) {
	_, clocked := r.(clocked)
	for start := time.Now(); len(took) < leastRounds || time.Since(start) < p.round*time.Duration(p.rounds)/10; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		one, own := time.Now(), ownClock(r)
		if err := r.run(ctx, 1); err != nil {
			return nil, err
		}
		spent := time.Since(one)
		if clocked {
			spent = ownClock(r) - own
		}
		took = append(took, micros(spent))
	}
	return took, nil
}

// ownClock is the clock of a runner that has one.
func ownClock(r runner) time.Duration {
	if c, ok := r.(clocked); ok {
		return c.clock()
	}
	return 0
}

// parseDistances reads the value of -distance. The engine beside its user is always one.
func parseDistances(list string) ([]time.Duration, error) {
	all := []time.Duration{0}
	for text := range strings.SplitSeq(list, ",") {
		trip, err := time.ParseDuration(text)
		if err != nil || trip < 0 {
			return nil, fmt.Errorf("-distance %s: want durations, as in 1ms,5ms", list)
		}
		if !slices.Contains(all, trip) {
			all = append(all, trip)
		}
	}
	return all, nil
}

// measureDistances measures the errands that -run selects at o.distances.
func (o options) measureDistances(ctx context.Context, at site, out io.Writer) error {
	heads := []string{"trips"}
	for _, trip := range o.distances {
		heads = append(heads, "µs at "+trip.String())
	}
	t := newTable([]string{"operation"}, heads...)
	found := false
	for _, e := range errands(o.engine) {
		if !o.run.MatchString(e.name) {
			continue
		}
		found = true
		row := table.Row{e.name}
		for i, trip := range o.distances {
			j, err := e.travel(ctx, at, trip, o.plan)
			if err != nil {
				return fmt.Errorf("%s at a distance of %v: %w", e.name, trip, err)
			}
			if o.json {
				if err := json.NewEncoder(out).Encode(j); err != nil {
					return err
				}
			}
			if i == 0 {
				row = append(row, significant(j.TripsPerOp))
			}
			row = append(row, significant(j.MedianUS))
		}
		t.AppendRow(row)
	}
	if !found {
		return fmt.Errorf("no operation matches -run %q", o.run)
	}
	if o.json {
		return nil
	}
	_, err := fmt.Fprintln(out, t.Render())
	return err
}
