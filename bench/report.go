package main

import (
	"fmt"
	"io"
	"math"
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
	// Environment is what was measured on, and how thoroughly; empty if an older version
	// wrote the record.
	Environment string `json:"environment"`
	// WaitsPerOp is how often the engine was asked to have something on disk before it goes
	// on, FsyncsPerOp how often it had the disk do so: less, where several waits share one.
	// Of engines that can't tell, which are all but Pebble, FsyncsPerOp is absent.
	WaitsPerOp  float64  `json:"waits_per_op"`
	FsyncsPerOp *float64 `json:"fsyncs_per_op,omitempty"`
	// LogBytesPerOp is what the engine wrote to its log; absent if it can't tell.
	LogBytesPerOp *float64 `json:"log_bytes_per_op,omitempty"`
	// CPU is the processor time of an operation, background work included; P50 and P99 are
	// within which half and 99 % of the operations were done.
	CPU versus `json:"cpu_us"`
	P50 versus `json:"p50_us"`
	P99 versus `json:"p99_us"`
	// Durable is absent of a line whose sides both work in this process.
	Durable *durability `json:"durable,omitempty"`
}

// A versus has how many microseconds an operation takes on both sides. Ratio is the peer's
// over the subject's: above 1 the subject takes less. What isn't known is absent.
type versus struct {
	Subject *float64 `json:"subject,omitempty"`
	Peer    *float64 `json:"peer,omitempty"`
	Ratio   *float64 `json:"ratio,omitempty"`
}

// compared makes a versus of seconds.
func compared(subject, peer float64) versus {
	return versus{number(1e6 * subject), number(1e6 * peer), number(peer / subject)}
}

// number is x, or nil for what isn't known.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// spread is the 95 % interval as text, empty if the record has none.
func (r record) spread() string {
	if r.RatioHigh == 0 {
		return ""
	}
	return significant(r.RatioLow) + "–" + significant(r.RatioHigh)
}

func (r result) record() record {
	ratio, low, high := r.rates.ratio()
	var atLeast float64
	if r.fixed || r.subject.name == greenroomOn(enginePebble) {
		atLeast = r.atLeast
	}
	return record{
		Name: r.name, Subject: r.subject.name, Peer: r.peer.name,
		Ratio: ratio, Unit: r.unit,
		SubjectMedian: median(r.rates.subject), PeerMedian: median(r.rates.peer),
		Rounds:     len(r.rates.subject),
		ReadsPerOp: r.perOp(r.reads()), CommitsPerOp: r.perOp(r.counts.Commits),
		RatioLow: low, RatioHigh: high, AtLeast: atLeast,
		SyncsPerOp: r.perOp(r.waits()), BytesPerOp: r.perOp(r.counts.Bytes),
		AllocsPerOp: number(r.each(r.allocs)), HeapBytesPerOp: number(r.each(r.allocBytes)),
		WaitsPerOp: r.perOp(r.waits()), FsyncsPerOp: number(r.each(r.fsyncs)), LogBytesPerOp: number(r.each(r.logged)),
		CPU:     compared(r.each(r.cpu), r.each(r.peerCPU)),
		P50:     compared(r.subjectTook.quantile(0.5), r.peerTook.quantile(0.5)),
		P99:     compared(r.subjectTook.quantile(0.99), r.peerTook.quantile(0.99)),
		Durable: r.durable,
	}
}

// columns are the heads of the table, and timeColumns those of a second one for what an
// operation takes. Of both, the first texts are over texts and the others over numbers.
var (
	columns = []string{
		"workload", "peer", "ratio", "95 %", "at least", "subject", "peer's", "rounds", "reads/op", "commits/op", "waits/op",
		"fsyncs/op", "written B/op", "log B/op", "allocs/op", "heap B/op", "durable: fsyncs",
	}
	timeColumns = []string{
		"workload", "peer", "cpu µs/op", "peer's", "ratio", "p50 µs", "peer's", "ratio", "p99 µs", "peer's", "ratio",
	}
)

const texts = 2

// times is the record in timeColumns.
func (r record) times() []string {
	row := []string{r.Name, r.Peer}
	for _, v := range []versus{r.CPU, r.P50, r.P99} {
		row = append(row, known(v.Subject), known(v.Peer), known(v.Ratio))
	}
	return row
}

// row is the record in those columns.
func (r record) row() []string {
	return []string{
		r.Name, r.Peer, significant(r.Ratio), r.spread(), given(r.AtLeast),
		significant(r.SubjectMedian) + " " + r.Unit, significant(r.PeerMedian) + " " + r.Unit, strconv.Itoa(r.Rounds),
		significant(r.ReadsPerOp), significant(r.CommitsPerOp), significant(r.WaitsPerOp), known(r.FsyncsPerOp),
		significant(r.BytesPerOp), known(r.LogBytesPerOp), known(r.AllocsPerOp), known(r.HeapBytesPerOp), r.Durable.String(),
	}
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

// writeTable writes a table, whose columns behind the texts hold numbers.
func writeTable(w io.Writer, heads []string, rows [][]string) error {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	var numbers []table.ColumnConfig
	for i := texts; i < len(heads); i++ {
		numbers = append(numbers, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(numbers)
	t.AppendHeader(cells(heads))
	for _, r := range rows {
		t.AppendRow(cells(r))
	}
	_, err := fmt.Fprintln(w, t.Render())
	return err
}

func cells(texts []string) (row table.Row) {
	for _, text := range texts {
		row = append(row, text)
	}
	return row
}

// significant prints x with three significant digits, and integers that have
// more in full.
func significant(x float64) string {
	if x >= 100 || x <= -100 || x == 0 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}
