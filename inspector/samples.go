package inspector

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/admin"
)

// maxSamples bounds what the charts show: 4 minutes of a page that is looked at.
const maxSamples = 120

// A sample is what the process had counted at a time, by the names of its metrics with their labels.
type sample struct {
	at     time.Time
	counts map[string]float64
}

// samples remember what a process counted whenever the overview was shown. All methods are safe for concurrent use.
type samples struct {
	mu  sync.Mutex
	all []sample // the oldest first  +checklocks:mu
}

// A chart is how a number went.
type chart struct {
	Name   string
	Now    string // the newest value in words
	Points string // of an SVG polyline in a box of 100 by 30
}

// A typeRow is what the actors of a type did since the process began.
type typeRow struct {
	Name                string
	Turns, Failed, Rows int64
	Written, Awake      int64 // bytes, milliseconds
}

// take takes a sample, and returns the charts, and the types of actors with the busiest first. A process without metrics has neither.
func (s *samples) take(ctx context.Context, c *admin.Client) ([]chart, []typeRow, error) {
	in, err := c.Stream(ctx, "metrics", nil)
	if e := (*admin.Error)(nil); errors.As(err, &e) && e.Code == "not_found" {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	counts, err := readMetrics(in)
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if n := len(s.all); n > 0 && now.Sub(s.all[n-1].at) < time.Second {
		s.all[n-1] = sample{now, counts} // another visitor's, of just now
	} else {
		s.all = append(s.all, sample{now, counts})
	}
	s.all = s.all[max(0, len(s.all)-maxSamples):]
	return s.charts(), s.types(), nil
}

// maxMetrics bounds what is read of metrics, in bytes.
const maxMetrics = 16 << 20

// readMetrics reads the text format of Prometheus: https://prometheus.io/docs/instrumenting/exposition_formats/.
func readMetrics(in io.Reader) (map[string]float64, error) {
	counts := map[string]float64{}
	lines := bufio.NewScanner(io.LimitReader(in, maxMetrics))
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || at < 0 || strings.Contains(line[:at], "_bucket{") {
			continue
		}
		if f, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			counts[line[:at]] = f
		}
	}
	return counts, lines.Err()
}

// lagName is the name of the chart that a process with a backup has.
const lagName = "Backup's lag"

// charts returns what the samples say.
//
// +checklocks:s.mu
func (s *samples) charts() []chart {
	rate := func(name string) func(before, now sample) float64 {
		return func(before, now sample) float64 {
			return max(0, (now.counts[name]-before.counts[name])/now.at.Sub(before.at).Seconds())
		}
	}
	failed := func(s sample) (n float64) {
		for name, count := range s.counts {
			if strings.HasPrefix(name, "greenroom_host_turns_failed_total{") {
				n += count
			}
		}
		return n
	}
	mean := func(name string) func(before, now sample) float64 {
		return func(before, now sample) float64 {
			n := now.counts[name+"_count"] - before.counts[name+"_count"]
			if n <= 0 {
				return 0
			}
			return max(0, (now.counts[name+"_sum"]-before.counts[name+"_sum"])/n*1000)
		}
	}
	all := []chart{}
	for _, c := range []struct {
		name, unit string
		of         func(before, now sample) float64
	}{
		{"Actors awake", "", func(_, now sample) float64 { return now.counts["greenroom_host_actors_awake"] }},
		{"Turns", "/s", rate("greenroom_host_turn_seconds_count")},
		{"Mean turn", " ms", mean("greenroom_host_turn_seconds")},
		{"Failed turns", "/s", func(before, now sample) float64 {
			return max(0, (failed(now)-failed(before))/now.at.Sub(before.at).Seconds())
		}},
		{"Calls waiting", "", func(_, now sample) float64 { return now.counts["greenroom_host_calls_waiting"] }},
		{lagName, " ms", mean("greenroom_archive_lag_seconds")},
	} {
		if c.name == lagName && s.all[len(s.all)-1].counts["greenroom_archive_lag_seconds_count"] == 0 {
			continue // the process doesn't back up the store
		}
		values := []float64{}
		for i := range s.all {
			values = append(values, c.of(s.all[max(0, i-1)], s.all[i]))
			if v := values[i]; math.IsNaN(v) || math.IsInf(v, 0) {
				values[i] = 0
			}
		}
		all = append(all, chart{c.name, fmt.Sprintf("%.3g%s", values[len(values)-1], c.unit), points(values)})
	}
	return all
}

// points are those of a polyline in a box of 100 by 30.
func points(values []float64) string {
	top := slices.Max(values)
	if top == 0 {
		top = 1
	}
	var b strings.Builder
	for i, v := range values {
		fmt.Fprintf(&b, "%.1f,%.1f ", 100-float64(len(values)-1-i)*100/float64(max(len(values)-1, 29)), 29-v/top*28)
	}
	return strings.TrimSpace(b.String())
}

// types returns what the actors of each type did since the process began.
//
// +checklocks:s.mu
func (s *samples) types() []typeRow {
	counts := s.all[len(s.all)-1].counts
	var rows []typeRow
	for name := range counts {
		kind, turns := strings.CutPrefix(name, `greenroom_host_turns_total{type="`)
		kind, plain := strings.CutSuffix(kind, `"}`)
		if !turns || !plain || strings.Contains(kind, `"`) {
			continue
		}
		of := func(metric string) int64 { return int64(counts[metric+`{type="`+kind+`"}`]) }
		r := typeRow{
			Name: kind, Turns: of("greenroom_host_turns_total"), Failed: of("greenroom_host_turns_failed_total"), Rows: of("greenroom_host_rows_read_total"),
			Written: of("greenroom_host_written_bytes_total"), Awake: of("greenroom_host_awake_milliseconds_total"),
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b typeRow) int { return cmp.Or(cmp.Compare(b.Turns, a.Turns), cmp.Compare(a.Name, b.Name)) })
	return rows
}
