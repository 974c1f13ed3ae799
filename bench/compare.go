package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// readRecords reads what -json printed, of one run or of several behind each other.
func readRecords(path string) (rs []record, err error) {
	text, err := os.ReadFile(path)
	for d := json.NewDecoder(bytes.NewReader(text)); err == nil && d.More(); {
		var r record
		if err = d.Decode(&r); err == nil && (r.Name == "" || r.Ratio <= 0) {
			err = errors.New("no name or no ratio")
		}
		rs = append(rs, r)
	}
	if err == nil && len(rs) == 0 {
		err = errors.New("no records")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: record %d: %w", path, len(rs), err)
	}
	return rs, nil
}

// A change is a line of this run, and of the one before it if that has it.
type change struct {
	record
	Before *record
}

// paired finds the lines of after in before, whose last record of a line counts.
func paired(before, after []record) (all []change) {
	type key struct{ name, subject, peer string }
	of := func(r record) key { return key{r.Name, r.Subject, r.Peer} }
	old := map[key]*record{}
	for i, b := range before {
		old[of(b)] = &before[i]
	}
	for _, r := range after {
		all = append(all, change{r, old[of(r)]})
	}
	return all
}

// Since is "faster" or "slower" where the intervals of the two don't touch, and else "": a
// difference that another run would perhaps not show.
func (c change) Since() string {
	b := c.Before
	known := b != nil && b.RatioHigh > 0 && c.RatioHigh > 0 // older versions wrote no intervals
	switch {
	case known && c.RatioLow > b.RatioHigh:
		return "faster"
	case known && c.RatioHigh < b.RatioLow:
		return "slower"
	}
	return ""
}

// Moved is the ratio over that of the run before.
func (c change) Moved() string {
	if c.Before == nil {
		return ""
	}
	return significant(c.Ratio / c.Before.Ratio)
}

// writeChanges writes for people what changed. Ratios are compared, since both were measured
// against the same peer in their run: what the machine was like has less of a part in that
// than in throughputs.
func writeChanges(w io.Writer, all []change) error {
	var rows [][]string
	var last change
	for _, c := range all {
		if b := c.Before; b != nil {
			rows = append(rows, []string{c.Name, c.Peer, significant(b.Ratio), b.spread(), significant(c.Ratio), c.spread(), c.Moved(), c.Since()})
			last = c
		}
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "nothing to compare: no line of this run is in the other one")
		return err
	}
	heads := []string{"workload", "peer", "ratio before", "95 %", "after", "95 %", "after/before", "outside the intervals"}
	if err := writeTable(w, heads, rows); err != nil {
		return err
	}
	// Ratios of other machines, or of smaller tables, are others.
	_, err := fmt.Fprintf(w, "before: %s\nafter:  %s\n", cmp.Or(last.Before.Environment, "unknown"), last.Environment)
	return err
}
