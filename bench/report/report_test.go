package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/plot"
)

// sampled are lines of every verdict.
func sampled() []line {
	at := func(name, peer string, ratio, low, high, atLeast float64) line {
		return line{Name: name, Subject: "greenroom-pebble", Peer: peer, Unit: "txn/s", Ratio: ratio, RatioLow: low, RatioHigh: high,
			AtLeast: atLeast, SubjectMedian: 1234.5, PeerMedian: 10, Rounds: 31, CommitsPerOp: 1, SubjectPeak: 40 << 20, PeerPeak: 30 << 20}
	}
	scan := at("sqlite/scan", "memdb", 0.9, 0.8, 1.1, 0.85)
	scan.ReadsPerOp = 2839
	none, few := 0.0, 0.0425
	scan.FsyncsPerOp, scan.AllocsPerOp = &few, &none
	return []line{
		at("sqlite/insert-1", "file-wal-full", 0.5, 0.4, 0.6, 1), at("sqlite/insert-1", "file-delete-full", 6.5, 6, 7.1, 2.5),
		scan, at("sqlite/mix", "<b>&", 1.2, 1.1, 1.3, 0),
	}
}

func made(t *testing.T, r run) string {
	t.Helper()
	in, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report(strings.NewReader(string(in)), &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestReport: the page says everything once, and each chart is well-formed.
func TestReport(t *testing.T) {
	got := made(t, run{Facts: [][2]string{{"cpu", "a <fast> one"}}, Lines: sampled(), Before: sampled()})
	for what, n := range map[string]int{
		"<svg": 4, "</svg>": 4, "a &lt;fast&gt; one": 1, "<b>&": 0, "&lt;b&gt;&amp;": 4, "0.4–0.6": 1, "6.5</td>": 1,
		"Of 3 lines with a target, 1": 1, "2839": 1, "<td>0.0425</td>": 1, "<td>0</td>": 1,
		`<td><span class="key missed">`: 1, `<td><span class="key reached">`: 1, `<td><span class="key near">`: 1, `<td><span class="key open">`: 1,
	} {
		if c := strings.Count(got, what); c != n {
			t.Errorf("the page has %q %d times, want %d", what, c, n)
		}
	}
	for rest := got; ; {
		_, after, found := strings.Cut(rest, "<svg")
		if !found {
			break
		}
		var chart string
		chart, rest, _ = strings.Cut(after, "</svg>")
		d := xml.NewDecoder(strings.NewReader("<svg" + chart + "</svg>"))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("a chart is no XML: %v", err)
			}
		}
	}
}

// TestSelfContained: a browser loads nothing for the page.
func TestSelfContained(t *testing.T) {
	got := made(t, run{Lines: sampled()})
	for _, what := range []string{"<script", "src=", "<link", "@import", "url(", "href="} {
		if strings.Contains(got, what) {
			t.Errorf("the page has %q", what)
		}
	}
}

// TestMemoryChart: of two sides with the same peak both are seen, in their own colours.
func TestMemoryChart(t *testing.T) {
	both := sampled()[0]
	both.PeerPeak = both.SubjectPeak
	chart, err := memoryChart([]line{both}).svg()
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(chart), "fill:#1B6CA8") // the subject's point, drawn last
	ring := strings.Index(string(chart), "stroke:#D96B0B")
	if at < 0 || ring < 0 || ring > at || !strings.Contains(string(chart), "fill:none;stroke:#D96B0B") {
		t.Errorf("the chart has its point at %d and its ring at %d:\n%s", at, ring, chart)
	}
}

// TestScale: an axis holds all points and their intervals, and ends at values with a name; a
// linear one begins at 0.
func TestScale(t *testing.T) {
	l := &layer{}
	l.add(0, 3, 0.3, 30)
	l.add(1, 60, 0, 0)
	for _, tt := range []struct {
		linear    bool
		low, high float64
	}{{false, 0.2, 100}, {true, 0, 100}} {
		p := plot.New()
		chart{linear: tt.linear, layers: []*layer{l}}.scale(p)
		if math.Abs(p.X.Min-tt.low) > 1e-9 || math.Abs(p.X.Max-tt.high) > 1e-9 {
			t.Errorf("linear %v: %v to %v, want %v to %v", tt.linear, p.X.Min, p.X.Max, tt.low, tt.high)
		}
	}
}

// TestEmptyCharts: what there is nothing to show of isn't on the page.
func TestEmptyCharts(t *testing.T) {
	only := line{Name: "a", Peer: "b", Ratio: 1, RatioLow: 1, RatioHigh: 1}
	if got := made(t, run{Lines: []line{only}}); strings.Count(got, "<svg") != 1 || strings.Contains(got, "lines with a target") {
		t.Errorf("one line without counts makes\n%s", got)
	}
}

func TestReportRefuses(t *testing.T) {
	for _, in := range []string{"", "{}", "[]", `{"lines":[{"name":"a","ratio":0}]}`, `{"lines":[{"ratio":1,"ratio_low":2,"ratio_high":1}]}`} {
		if err := report(strings.NewReader(in), io.Discard); err == nil {
			t.Errorf("no error for %q", in)
		}
	}
}

func TestRound(t *testing.T) {
	for _, tt := range []struct{ x, low, high float64 }{
		{1, 1, 1}, {0.3, 0.2, 0.5}, {7, 5, 10}, {5, 5, 5}, {23, 20, 50}, {0.99, 0.5, 1}, {1000, 1000, 1000},
	} {
		low, high := round(tt.x, false), round(tt.x, true)
		if math.Abs(low-tt.low) > 1e-9 || math.Abs(high-tt.high) > 1e-9 {
			t.Errorf("round(%v) = %v, %v, want %v, %v", tt.x, low, high, tt.low, tt.high)
		}
	}
}

func TestTickLabels(t *testing.T) {
	for v, want := range map[float64]string{0.001: "0.001", 0.2: "0.2", 1: "1", 50: "50", 10_000: "10000"} {
		ticks := powers{}.Ticks(v, 2*v)
		if ticks[0].Label != want {
			t.Errorf("the tick at %v is called %q, want %q", v, ticks[0].Label, want)
		}
	}
	if got := (whole{}).Ticks(0, 500)[0].Label; got != "0" {
		t.Errorf("the first tick of a linear axis is called %q", got)
	}
}

// TestTicks: an axis has values with a name at both ends, and not too many.
func TestTicks(t *testing.T) {
	for _, tt := range []struct{ low, high float64 }{{1, 2}, {0.2, 50}, {0.001, 5000}} {
		named := 0
		ticks := powers{}.Ticks(tt.low, tt.high)
		for _, k := range ticks {
			if k.Label != "" {
				named++
			}
		}
		if first, last := ticks[0].Value, ticks[len(ticks)-1].Value; named < 2 || named > 12 || math.Abs(first/tt.low-1) > 1e-9 || math.Abs(last/tt.high-1) > 1e-9 {
			t.Errorf("%v to %v: %d named ticks from %v to %v", tt.low, tt.high, named, first, last)
		}
	}
}
