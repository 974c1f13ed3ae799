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

// line is what a record is paired by with that of another run.
func (r record) line() [3]string { return [3]string{r.Name, r.Subject, r.Peer} }

// since is "faster" or "slower" where the intervals of the two don't touch, and else "": a
// difference that another run would perhaps not show.
func (r record) since(before record) string {
	known := before.RatioHigh > 0 && r.RatioHigh > 0 // older versions wrote no intervals
	switch {
	case known && r.RatioLow > before.RatioHigh:
		return "faster"
	case known && r.RatioHigh < before.RatioLow:
		return "slower"
	}
	return ""
}

// writeChanges writes for people what changed since before, of whose records for the same
// line the last counts. Ratios are compared, since both were measured against the same peer
// in their run: what the machine was like has less of a part in that than in throughputs.
func writeChanges(w io.Writer, before, after []record) error {
	old := map[[3]string]record{}
	for _, b := range before {
		old[b.line()] = b
	}
	var rows [][]string
	var last [2]string
	for _, r := range after {
		if b, ok := old[r.line()]; ok {
			rows = append(rows, []string{
				r.Name, r.Peer, significant(b.Ratio), b.spread(), significant(r.Ratio), r.spread(), significant(r.Ratio / b.Ratio), r.since(b),
			})
			last = [2]string{cmp.Or(b.Environment, "unknown"), r.Environment}
		}
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "nothing to compare: no line of this run is in the other one")
		return err
	}
	heads := []string{"workload", "peer", "ratio before", "95 %", "after", "95 %", "after/before", "outside the intervals"}
	if err := writeTable(w, texts, heads, rows); err != nil {
		return err
	}
	// Ratios of other machines, or of smaller tables, are others.
	_, err := fmt.Fprintf(w, "before: %s\nafter:  %s\n", last[0], last[1])
	return err
}
