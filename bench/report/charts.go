package main

import (
	"html/template"

	"gonum.org/v1/plot/vg/draw"
)

// ratioChart shows the ratio of every line with its interval, and what it should be.
func ratioChart(lines []line) (template.HTML, error) {
	low, high := 1.0, 1.0
	points := map[verdict][]point{}
	var rows []string
	var targets []point
	for i, l := range lines {
		rows = append(rows, l.title())
		low, high = min(low, l.RatioLow), max(high, l.RatioHigh)
		points[l.verdict()] = append(points[l.verdict()], point{i, l.Ratio, l.RatioLow, l.RatioHigh})
		if l.AtLeast > 0 {
			low, high = min(low, l.AtLeast), max(high, l.AtLeast)
			targets = append(targets, point{row: i, x: l.AtLeast})
		}
	}
	c := newChart(rows, "subject's throughput over the peer's, with its 95 % interval: right of 1 Greenroom is faster", low, high)
	c.grid()
	if err := c.across(1); err != nil {
		return "", err
	}
	if err := c.points(targets, mark{}, ink); err != nil {
		return "", err
	}
	for _, v := range []verdict{reached, near, missed, open} {
		if err := c.intervals(points[v], v.colour()); err != nil {
			return "", err
		}
		if err := c.points(points[v], draw.CircleGlyph{}, v.colour()); err != nil {
			return "", err
		}
	}
	return c.svg()
}

// callChart shows what an operation asks of the engine. A workload has one row, whoever its
// peers are. It is empty where nothing asks for anything.
func callChart(lines []line) (template.HTML, error) {
	var rows []string
	var reads, commits []point
	low, high := 1.0, 1.0
	add := func(to *[]point, x float64) bool {
		if x <= 0 {
			return false
		}
		low, high = min(low, x), max(high, x)
		*to = append(*to, point{row: len(rows), x: x})
		return true
	}
	seen := map[string]bool{}
	for _, l := range lines {
		if seen[l.Name] {
			continue
		}
		seen[l.Name] = true
		r, c := add(&reads, l.ReadsPerOp), add(&commits, l.CommitsPerOp)
		if r || c {
			rows = append(rows, l.Name)
		}
	}
	if len(rows) == 0 {
		return "", nil
	}
	c := newChart(rows, "calls of the engine for an operation: what a network would multiply", low, high)
	c.grid()
	if err := c.points(reads, draw.RingGlyph{}, blue); err != nil {
		return "", err
	}
	if err := c.points(commits, draw.CircleGlyph{}, orange); err != nil {
		return "", err
	}
	return c.svg()
}

// memoryChart shows how much memory each side's process had at most, in MiB. It is empty
// where the system didn't tell.
func memoryChart(lines []line) (template.HTML, error) {
	var rows []string
	var subjects, peers []point
	low, high := 0.0, 0.0
	for _, l := range lines {
		s, p := float64(l.SubjectPeak)/(1<<20), float64(l.PeerPeak)/(1<<20)
		if s <= 0 {
			continue
		}
		subjects = append(subjects, point{row: len(rows), x: s})
		if low == 0 || s < low {
			low = s
		}
		high = max(high, s)
		if p > 0 {
			peers = append(peers, point{row: len(rows), x: p})
			low, high = min(low, p), max(high, p)
		}
		rows = append(rows, l.title())
	}
	if len(rows) == 0 {
		return "", nil
	}
	c := newChart(rows, "resident memory of the process at most, in MiB", low, high)
	c.linear()
	c.grid()
	// Both are often the same, as those of one process: neither hides the other.
	if err := c.points(peers, halo{}, orange); err != nil {
		return "", err
	}
	if err := c.points(subjects, draw.CircleGlyph{}, blue); err != nil {
		return "", err
	}
	return c.svg()
}

// changeChart shows how the ratios moved since the run before. It is empty where there are
// none of both runs.
func changeChart(before, lines []line) (template.HTML, error) {
	old := map[string]line{}
	for _, l := range before {
		old[l.Subject+" "+l.title()] = l
	}
	var rows []string
	var same, faster, slower []point
	low, high := 1.0, 1.0
	for _, l := range lines {
		b, ok := old[l.Subject+" "+l.title()]
		if !ok || b.Ratio <= 0 {
			continue
		}
		p := point{row: len(rows), x: l.Ratio / b.Ratio}
		switch {
		case b.RatioHigh > 0 && l.RatioLow > b.RatioHigh:
			faster = append(faster, p)
		case b.RatioHigh > 0 && l.RatioHigh < b.RatioLow:
			slower = append(slower, p)
		default:
			same = append(same, p)
		}
		low, high = min(low, p.x), max(high, p.x)
		rows = append(rows, l.title())
	}
	if len(rows) == 0 {
		return "", nil
	}
	c := newChart(rows, "ratio of this run over that of the one before", low, high)
	c.grid()
	if err := c.across(1); err != nil {
		return "", err
	}
	for _, k := range []struct {
		points []point
		as     verdict
	}{{same, open}, {faster, reached}, {slower, missed}} {
		if err := c.points(k.points, draw.CircleGlyph{}, k.as.colour()); err != nil {
			return "", err
		}
	}
	return c.svg()
}
