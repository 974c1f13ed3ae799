package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/jedib0t/go-pretty/v6/table"
)

// readRecords reads what -json printed, of one run or of several behind each other.
func readRecords(path string) (_ []record, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var rs []record
	for d := json.NewDecoder(f); ; {
		var r record
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			if len(rs) == 0 {
				return nil, fmt.Errorf("%s: no records", path)
			}
			return rs, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: record %d: %w", path, len(rs)+1, err)
		}
		if r.Name == "" || r.Ratio <= 0 {
			return nil, fmt.Errorf("%s: record %d has no name or no ratio", path, len(rs)+1)
		}
		rs = append(rs, r)
	}
}

// A change is one line, before and after. Ratios are compared, since both were measured
// against the same peer in their run: what the machine was like has less of a part in that
// than in throughputs.
type change struct {
	before, after record
}

// changes pairs records of the same workload, subject and peer, in the order of after.
// Of several in before, the last counts.
func changes(before, after []record) []change {
	type key struct{ name, subject, peer string }
	old := map[key]record{}
	for _, r := range before {
		old[key{r.Name, r.Subject, r.Peer}] = r
	}
	var cs []change
	for _, r := range after {
		if b, ok := old[key{r.Name, r.Subject, r.Peer}]; ok {
			cs = append(cs, change{b, r})
		}
	}
	return cs
}

// factor is how many times the ratio of before that of after is.
func (c change) factor() float64 { return c.after.Ratio / c.before.Ratio }

// verdict is "faster" or "slower" where the intervals of the two don't touch, and else "": a
// difference that another run would perhaps not show.
func (c change) verdict() string {
	b, a := c.before, c.after
	switch {
	case b.RatioHigh == 0 || a.RatioHigh == 0:
		return "" // no interval, as older versions wrote
	case a.RatioLow > b.RatioHigh:
		return "faster"
	case a.RatioHigh < b.RatioLow:
		return "slower"
	}
	return ""
}

// writeChanges writes for people what changed since before.
func writeChanges(w io.Writer, before []record, results []result) error {
	cs := changes(before, records(results))
	if len(cs) == 0 {
		_, err := fmt.Fprintln(w, "nothing to compare: no line of this run is in the other one")
		return err
	}
	t := newTable([]string{"workload", "peer"}, "ratio before", "95 %", "after", "95 %", "after/before", "outside the intervals")
	for _, c := range cs {
		t.AppendRow(table.Row{
			c.after.Name, c.after.Peer, significant(c.before.Ratio), c.before.spread(),
			significant(c.after.Ratio), c.after.spread(), significant(c.factor()), c.verdict(),
		})
	}
	if _, err := fmt.Fprintln(w, t.Render()); err != nil {
		return err
	}
	// Ratios of other machines, or of smaller tables, are others.
	last := cs[len(cs)-1]
	_, err := fmt.Fprintf(w, "before: %s\nafter:  %s\n", cmp.Or(last.before.Environment, "unknown"), last.after.Environment)
	return err
}
