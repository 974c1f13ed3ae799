package inspector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/greenroomdb/greenroom/admin"
)

// maxSamples bounds what the charts show: 4 minutes of a page that is looked at.
const maxSamples = 120

// A sample is what the process had counted at a time.
type sample struct {
	at             time.Time
	awake, waiting float64 // actors in memory, calls that wait for room
	turns, failed  float64
	turnTime       float64   // seconds, of all turns
	lags, lagTime  float64   // of the backup: segments, and seconds from commits until they are in the bucket
	types          []typeRow // which only the newest needs
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
	Written             int64         // bytes
	Awake               int64         // milliseconds, of all actors together
	Time                time.Duration // of all turns
}

// Mean is how long a turn took on average.
func (r *typeRow) Mean() string { return duration(r.Time / time.Duration(max(r.Turns, 1))) }

// Sum is how long all turns took.
func (r *typeRow) Sum() string { return duration(r.Time) }

// take takes a sample, and returns the charts, and the types of actors with the one first whose turns took the longest. A process without metrics has neither.
func (s *samples) take(ctx context.Context, c *admin.Client) ([]chart, []typeRow, error) {
	in, err := c.Stream(ctx, "metrics", nil)
	if e := (*admin.Error)(nil); errors.As(err, &e) && e.Code == "not_found" {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	now, err := readSample(in)
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	types := now.types
	if now.types = nil; len(s.all) > 0 && now.at.Sub(s.all[len(s.all)-1].at) < time.Second {
		s.all[len(s.all)-1] = now // in the place of another visitor's, of just now
	} else {
		s.all = append(s.all, now)
	}
	s.all = s.all[max(0, len(s.all)-maxSamples):]
	return s.charts(), types, nil
}

// maxMetrics bounds what is read of metrics, in bytes.
const maxMetrics = 16 << 20

// readSample reads the text format of Prometheus: https://prometheus.io/docs/instrumenting/exposition_formats/.
func readSample(in io.Reader) (sample, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(in, maxMetrics))
	if err != nil {
		return sample{}, fmt.Errorf("inspector: metrics: %w", err)
	}
	s := sample{at: time.Now()}
	types := map[string]*typeRow{}
	for name, add := range map[string]func(m *dto.Metric, of *typeRow){
		"greenroom_host_actors_awake":  func(m *dto.Metric, _ *typeRow) { s.awake += m.GetGauge().GetValue() },
		"greenroom_host_calls_waiting": func(m *dto.Metric, _ *typeRow) { s.waiting += m.GetGauge().GetValue() },
		"greenroom_archive_lag_seconds": func(m *dto.Metric, _ *typeRow) {
			s.lags, s.lagTime = s.lags+float64(m.GetHistogram().GetSampleCount()), s.lagTime+m.GetHistogram().GetSampleSum()
		},
		"greenroom_host_turn_seconds": func(m *dto.Metric, of *typeRow) {
			n, sum := m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
			s.turns, s.turnTime = s.turns+float64(n), s.turnTime+sum
			of.Turns, of.Time = of.Turns+int64(n), of.Time+time.Duration(sum*float64(time.Second))
		},
		"greenroom_host_turns_failed_total": func(m *dto.Metric, of *typeRow) {
			s.failed += m.GetCounter().GetValue()
			of.Failed += int64(m.GetCounter().GetValue())
		},
		"greenroom_host_rows_read_total":     func(m *dto.Metric, of *typeRow) { of.Rows += int64(m.GetCounter().GetValue()) },
		"greenroom_host_written_bytes_total": func(m *dto.Metric, of *typeRow) { of.Written += int64(m.GetCounter().GetValue()) },
		"greenroom_host_awake_seconds_total": func(m *dto.Metric, of *typeRow) { of.Awake += int64(m.GetCounter().GetValue() * 1000) },
	} {
		for _, m := range families[name].GetMetric() {
			add(m, rowOf(types, m))
		}
	}
	for _, r := range types {
		if r.Name != "" {
			s.types = append(s.types, *r)
		}
	}
	slices.SortFunc(s.types, func(a, b typeRow) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Name, b.Name)) })
	return s, nil
}

// rowOf returns the row of the type that a metric is of, which is a row without a name for a metric that is of none.
func rowOf(types map[string]*typeRow, m *dto.Metric) *typeRow {
	name := ""
	for _, l := range m.GetLabel() {
		if l.GetName() == "type" {
			name = l.GetValue()
		}
	}
	if types[name] == nil {
		types[name] = &typeRow{Name: name}
	}
	return types[name]
}

// lagName is the name of the chart that a process with a backup has.
const lagName = "Backup's lag"

// charts returns what the samples say.
//
// +checklocks:s.mu
func (s *samples) charts() []chart {
	rate := func(of func(s *sample) float64) func(before, now *sample) float64 {
		return func(before, now *sample) float64 {
			return max(0, (of(now)-of(before))/now.at.Sub(before.at).Seconds())
		}
	}
	mean := func(of func(s *sample) (count, seconds float64)) func(before, now *sample) float64 {
		return func(before, now *sample) float64 {
			n, sum := of(now)
			m, earlier := of(before)
			if n <= m {
				return 0
			}
			return max(0, (sum-earlier)/(n-m)*1000)
		}
	}
	all := []chart{}
	for _, c := range []struct {
		name, unit string
		of         func(before, now *sample) float64
	}{
		{"Actors awake", "", func(_, now *sample) float64 { return now.awake }},
		{"Turns", "/s", rate(func(s *sample) float64 { return s.turns })},
		{"Mean turn", " ms", mean(func(s *sample) (float64, float64) { return s.turns, s.turnTime })},
		{"Failed turns", "/s", rate(func(s *sample) float64 { return s.failed })},
		{"Calls waiting", "", func(_, now *sample) float64 { return now.waiting }},
		{lagName, " ms", mean(func(s *sample) (float64, float64) { return s.lags, s.lagTime })},
	} {
		if c.name == lagName && s.all[len(s.all)-1].lags == 0 {
			continue // the process doesn't back up the store
		}
		values := []float64{}
		for i := range s.all {
			values = append(values, c.of(&s.all[max(0, i-1)], &s.all[i]))
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
