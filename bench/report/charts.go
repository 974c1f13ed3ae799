package main

import (
	"gonum.org/v1/plot/vg/draw"
)

// ratioChart shows the ratio of every line with its interval, and what it should be.
func ratioChart(lines []line) chart {
	c := chart{title: "subject's throughput over the peer's, with its 95 % interval: right of 1 Greenroom is faster", across: true}
	targets, by := &layer{shape: mark{}, paint: ink}, map[verdict]*layer{}
	c.layers = append(c.layers, targets)
	for _, v := range []verdict{reached, near, missed, open} {
		by[v] = &layer{shape: draw.CircleGlyph{}, paint: colours[v]}
		c.layers = append(c.layers, by[v])
	}
	for i, l := range lines {
		c.rows = append(c.rows, l.title())
		by[l.verdict()].add(i, l.Ratio, l.RatioLow, l.RatioHigh)
		if l.AtLeast > 0 {
			targets.add(i, l.AtLeast, 0, 0)
		}
	}
	return c
}

// callChart shows what an operation asks of the engine. A workload has one row, whoever its
// peers are, and none if it asks for nothing.
func callChart(lines []line) chart {
	reads, commits := &layer{shape: draw.RingGlyph{}, paint: blue}, &layer{shape: draw.CircleGlyph{}, paint: orange}
	c := chart{title: "calls of the engine for an operation: what a network would multiply", layers: []*layer{reads, commits}}
	seen := map[string]bool{}
	for _, l := range lines {
		if seen[l.Name] || l.ReadsPerOp+l.CommitsPerOp == 0 {
			continue
		}
		seen[l.Name] = true
		if l.ReadsPerOp > 0 {
			reads.add(len(c.rows), l.ReadsPerOp, 0, 0)
		}
		if l.CommitsPerOp > 0 {
			commits.add(len(c.rows), l.CommitsPerOp, 0, 0)
		}
		c.rows = append(c.rows, l.Name)
	}
	return c
}

// memoryChart shows how much memory each side's process had at most, in MiB, where the system
// told. Both are often the same, as those of one process: neither hides the other.
func memoryChart(lines []line) chart {
	peers, subjects := &layer{shape: halo{}, paint: orange}, &layer{shape: draw.CircleGlyph{}, paint: blue}
	c := chart{title: "resident memory of the process at most, in MiB", linear: true, layers: []*layer{peers, subjects}}
	for _, l := range lines {
		if l.SubjectPeak <= 0 {
			continue
		}
		subjects.add(len(c.rows), float64(l.SubjectPeak)/(1<<20), 0, 0)
		if l.PeerPeak > 0 {
			peers.add(len(c.rows), float64(l.PeerPeak)/(1<<20), 0, 0)
		}
		c.rows = append(c.rows, l.title())
	}
	return c
}

// changeChart shows how the ratios of lines that both runs have moved since the run before.
func changeChart(before, lines []line) chart {
	same, faster, slower := &layer{shape: draw.CircleGlyph{}, paint: grey}, &layer{shape: draw.CircleGlyph{}, paint: blue}, &layer{shape: draw.CircleGlyph{}, paint: orange}
	c := chart{title: "ratio of this run over that of the one before", across: true, layers: []*layer{same, faster, slower}}
	old := map[string]line{}
	for _, l := range before {
		old[l.Subject+" "+l.title()] = l
	}
	for _, l := range lines {
		b, ok := old[l.Subject+" "+l.title()]
		if !ok || b.Ratio <= 0 {
			continue
		}
		to := same
		switch {
		case b.RatioHigh > 0 && l.RatioLow > b.RatioHigh:
			to = faster
		case b.RatioHigh > 0 && l.RatioHigh < b.RatioLow:
			to = slower
		}
		to.add(len(c.rows), l.Ratio/b.Ratio, 0, 0)
		c.rows = append(c.rows, l.title())
	}
	return c
}
