package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// A record is a result as -json prints it, one object a line. Programs read it:
// names and order of the fields don't change, new ones come last.
type record struct {
	Name          string  `json:"name"`
	Subject       string  `json:"subject"`
	Peer          string  `json:"peer"`
	Ratio         float64 `json:"ratio"`
	Unit          string  `json:"unit"`
	SubjectMedian float64 `json:"subject_median"`
	PeerMedian    float64 `json:"peer_median"`
	Rounds        int     `json:"rounds"`
	ReadsPerOp    float64 `json:"reads_per_op"`
	CommitsPerOp  float64 `json:"commits_per_op"`
}

func (r result) record() record {
	return record{
		Name: r.name, Subject: r.subject.name, Peer: r.peer.name,
		Ratio: r.rates.ratio(), Unit: r.unit,
		SubjectMedian: median(r.rates.subject), PeerMedian: median(r.rates.peer),
		Rounds:     len(r.rates.subject),
		ReadsPerOp: r.perOp(r.reads()), CommitsPerOp: r.perOp(r.counts.Commits),
	}
}

// writeJSON writes r as one line.
func writeJSON(w io.Writer, r result) error { return json.NewEncoder(w).Encode(r.record()) }

// columns are the heads of the table and how a result shows there. All but the
// first two are numbers.
var columns = []struct {
	head string
	cell func(result) string
}{
	{"workload", func(r result) string { return r.name }},
	{"peer", func(r result) string { return r.peer.name }},
	{"ratio", func(r result) string { return significant(r.rates.ratio()) }},
	{"95 %", func(r result) string {
		in := r.rates.spread()
		return significant(in.low) + "–" + significant(in.high)
	}},
	{"subject", func(r result) string { return significant(median(r.rates.subject)) + " " + r.unit }},
	{"peer's", func(r result) string { return significant(median(r.rates.peer)) + " " + r.unit }},
	{"rounds", func(r result) string { return strconv.Itoa(len(r.rates.subject)) }},
	{"reads/op", func(r result) string { return significant(r.perOp(r.reads())) }},
	{"commits/op", func(r result) string { return significant(r.perOp(r.counts.Commits)) }},
	{"written B/op", func(r result) string { return significant(r.perOp(r.counts.Bytes)) }},
	{"allocs/op", func(r result) string { return significant(r.perOp(int64(r.allocs))) }},
	{"heap B/op", func(r result) string { return significant(r.perOp(int64(r.allocBytes))) }},
}

// writeTable writes results for people.
func writeTable(w io.Writer, results []result) error {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	var head table.Row
	var numbers []table.ColumnConfig
	for i, c := range columns {
		head = append(head, c.head)
		if i >= 2 {
			numbers = append(numbers, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.AppendHeader(head)
	t.SetColumnConfigs(numbers)
	for _, r := range results {
		var row table.Row
		for _, c := range columns {
			row = append(row, c.cell(r))
		}
		t.AppendRow(row)
	}
	_, err := fmt.Fprintln(w, t.Render())
	return err
}

// significant prints x with three significant digits, and integers that have
// more in full.
func significant(x float64) string {
	if x >= 100 || x <= -100 || x == 0 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}
