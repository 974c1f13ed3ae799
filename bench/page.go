package main

import (
	"bytes"
	_ "embed"
	"html/template"
	"math"
	"os"
	"slices"
)

//go:embed page.html
var pageSource string

// A page has all lines in a table, with a chart of their ratios on a logarithmic axis. It is
// what the template is filled with.
type page struct {
	Facts facts
	Lines []change
	// Count is how many lines have which verdict, and Promised how many have a target.
	Count    map[string]int
	Promised int
	// Compared says that there is another run to compare with.
	Compared bool
	// low and high are the ends of the axis, and Ticks what is named on it.
	low, high float64
	Ticks     []float64
}

func newPage(on facts, lines []change) page {
	p := page{Facts: on, Lines: lines, Count: map[string]int{}, low: 1, high: 1}
	for _, l := range lines {
		p.Count[l.Verdict()]++
		p.hold(l.record)
		if l.Before != nil {
			p.Compared = true
			p.hold(*l.Before)
		}
	}
	p.Promised = len(lines) - p.Count["open"]
	p.low, p.high = p.low/1.2, p.high*1.2
	step := 10.0
	if p.high < 10*p.low {
		step = 2
	}
	for at := math.Pow(step, math.Ceil(math.Log(p.low)/math.Log(step)-1e-9)); at <= p.high; at *= step {
		p.Ticks = append(p.Ticks, at)
	}
	return p
}

// hold has the axis hold what is drawn of a line.
func (p *page) hold(r record) {
	for _, x := range []float64{r.Ratio, r.RatioLow, r.RatioHigh, r.AtLeast} {
		if x > 0 {
			p.low, p.high = min(p.low, x), max(p.high, x)
		}
	}
}

// At is where x is on the axis, in percent of its length.
func (p page) At(x float64) float64 {
	return 100 * math.Log(max(x, p.low)/p.low) / math.Log(p.high/p.low)
}

// Wide is how long it is from low to high.
func (p page) Wide(low, high float64) float64 { return p.At(high) - p.At(low) }

// Heads are those of Cells.
func (page) Heads() []string { return slices.Concat(columns[texts:], timeColumns[texts:]) }

// Cells are what the two tables have of a line.
func (c change) Cells() []string { return slices.Concat(c.row()[texts:], c.times()[texts:]) }

// Verdict says how a line stands to what it should be: it is reached, by the whole interval; it
// is near, within the interval; or it is missed. It is open if nothing was promised.
func (c change) Verdict() string {
	switch {
	case c.AtLeast == 0:
		return "open"
	case c.RatioLow >= c.AtLeast:
		return "reached"
	case c.RatioHigh < c.AtLeast:
		return "missed"
	}
	return "near"
}

// writePage writes p to a file.
func writePage(path string, p page) {
	t := template.Must(template.New("page").Funcs(template.FuncMap{"significant": significant}).Parse(pageSource))
	var b bytes.Buffer
	check(t.Execute(&b, p))
	check(os.WriteFile(path, b.Bytes(), 0o644))
}
