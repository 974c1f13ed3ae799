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
	// RatioLow and RatioHigh are the 95 % interval of Ratio.
	RatioLow  float64 `json:"ratio_low"`
	RatioHigh float64 `json:"ratio_high"`
	// AtLeast is what Ratio should be; 0 if nothing was promised.
	AtLeast float64 `json:"at_least"`
	// SyncsPerOp is the older name of WaitsPerOp, BytesPerOp what was written to the engine,
	// keys and values.
	SyncsPerOp float64 `json:"syncs_per_op"`
	BytesPerOp float64 `json:"bytes_per_op"`
	// AllocsPerOp and HeapBytesPerOp are of the subject's process while it ran; absent if
	// that is another program.
	AllocsPerOp    *float64 `json:"allocs_per_op,omitempty"`
	HeapBytesPerOp *float64 `json:"heap_bytes_per_op,omitempty"`
	// SubjectPeak and PeerPeak are the bytes of memory that the process of a side had
	// resident at most; absent where the system doesn't tell.
	SubjectPeak int64 `json:"subject_peak_bytes,omitempty"`
	PeerPeak    int64 `json:"peer_peak_bytes,omitempty"`
	// Environment is what was measured on, and how thoroughly; empty if an older version
	// wrote the record.
	Environment string `json:"environment"`
	// WaitsPerOp is how often the engine was asked to have something on disk before it goes
	// on, FsyncsPerOp how often it had the disk do so: less, where several waits share one.
	// Of engines that can't tell, which are all but Pebble, FsyncsPerOp is absent.
	WaitsPerOp  float64  `json:"waits_per_op"`
	FsyncsPerOp *float64 `json:"fsyncs_per_op,omitempty"`
}

// spread is the 95 % interval as text, empty where there is none.
func (r record) spread() string {
	if r.RatioHigh == 0 {
		return ""
	}
	return significant(r.RatioLow) + "–" + significant(r.RatioHigh)
}

func (r result) record() record {
	in := r.rates.spread()
	var atLeast float64
	if r.subject.name == "greenroom-"+enginePebble {
		atLeast, _ = target(r.title())
	}
	return record{
		Name: r.name, Subject: r.subject.name, Peer: r.peer.name,
		Ratio: r.rates.ratio(), Unit: r.unit,
		SubjectMedian: median(r.rates.subject), PeerMedian: median(r.rates.peer),
		Rounds:     len(r.rates.subject),
		ReadsPerOp: r.perOp(r.reads()), CommitsPerOp: r.perOp(r.counts.Commits),
		RatioLow: in.low, RatioHigh: in.high, AtLeast: atLeast,
		SyncsPerOp: r.perOp(r.waits()), BytesPerOp: r.perOp(r.counts.Bytes),
		AllocsPerOp: r.perOpOf(r.allocs), HeapBytesPerOp: r.perOpOf(r.allocBytes),
		SubjectPeak: r.subjectPeak, PeerPeak: r.peerPeak, Environment: r.environment,
		WaitsPerOp: r.perOp(r.waits()), FsyncsPerOp: r.perOpOf(r.fsyncs),
	}
}

// records returns what -json prints of results.
func records(results []result) []record {
	var rs []record
	for _, r := range results {
		rs = append(rs, r.record())
	}
	return rs
}

// writeJSON writes r as one line.
func writeJSON(w io.Writer, r result) error { return json.NewEncoder(w).Encode(r.record()) }

// columns are the heads of the table and how a record shows there. All but the
// first two are numbers.
var columns = []struct {
	head string
	cell func(record) string
}{
	{"workload", func(r record) string { return r.Name }},
	{"peer", func(r record) string { return r.Peer }},
	{"ratio", func(r record) string { return significant(r.Ratio) }},
	{"95 %", record.spread},
	{"at least", func(r record) string { return given(r.AtLeast) }},
	{"subject", func(r record) string { return significant(r.SubjectMedian) + " " + r.Unit }},
	{"peer's", func(r record) string { return significant(r.PeerMedian) + " " + r.Unit }},
	{"rounds", func(r record) string { return strconv.Itoa(r.Rounds) }},
	{"reads/op", func(r record) string { return significant(r.ReadsPerOp) }},
	{"commits/op", func(r record) string { return significant(r.CommitsPerOp) }},
	{"waits/op", func(r record) string { return significant(r.WaitsPerOp) }},
	{"fsyncs/op", func(r record) string { return known(r.FsyncsPerOp) }},
	{"written B/op", func(r record) string { return significant(r.BytesPerOp) }},
	{"allocs/op", func(r record) string { return known(r.AllocsPerOp) }},
	{"heap B/op", func(r record) string { return known(r.HeapBytesPerOp) }},
	{"peak MiB", func(r record) string { return given(float64(r.SubjectPeak >> 20)) }},
	{"peer's", func(r record) string { return given(float64(r.PeerPeak >> 20)) }},
}

// known is x as text, empty for what isn't known.
func known(x *float64) string {
	if x == nil {
		return ""
	}
	return significant(*x)
}

// given is x as text, empty for 0, which stands for none.
func given(x float64) string {
	if x == 0 {
		return ""
	}
	return significant(x)
}

// newTable makes a table with a head, whose columns behind the first ones hold numbers.
func newTable(texts []string, numbers ...string) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	var head table.Row
	for _, name := range texts {
		head = append(head, name)
	}
	var right []table.ColumnConfig
	for _, name := range numbers {
		head = append(head, name)
		right = append(right, table.ColumnConfig{Number: len(head), Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.AppendHeader(head)
	t.SetColumnConfigs(right)
	return t
}

// writeTable writes results for people.
func writeTable(w io.Writer, results []result) error {
	var heads []string
	for _, c := range columns {
		heads = append(heads, c.head)
	}
	t := newTable(heads[:2], heads[2:]...)
	for _, r := range results {
		of := r.record()
		var row table.Row
		for _, c := range columns {
			row = append(row, c.cell(of))
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
