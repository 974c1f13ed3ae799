// Command report makes a page of what bench measured: charts and a table in one HTML file,
// with no script and nothing that a browser would load from elsewhere.
//
//	report <run.json >report.html
//
// It is what go run ./bench -html runs, and knows nothing of measuring. Its input is one
// object: what the run was made on ("facts"), its lines as bench -json prints them, and those
// of the run that it is compared with ("before"), if there is one.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := report(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// A run is the input.
type run struct {
	Facts  [][2]string `json:"facts"`
	Lines  []line      `json:"lines"`
	Before []line      `json:"before"`
}

// A line is one measured comparison, as bench documents it.
type line struct {
	Name           string   `json:"name"`
	Subject        string   `json:"subject"`
	Peer           string   `json:"peer"`
	Ratio          float64  `json:"ratio"`
	Unit           string   `json:"unit"`
	SubjectMedian  float64  `json:"subject_median"`
	PeerMedian     float64  `json:"peer_median"`
	Rounds         int      `json:"rounds"`
	ReadsPerOp     float64  `json:"reads_per_op"`
	CommitsPerOp   float64  `json:"commits_per_op"`
	RatioLow       float64  `json:"ratio_low"`
	RatioHigh      float64  `json:"ratio_high"`
	AtLeast        float64  `json:"at_least"`
	BytesPerOp     float64  `json:"bytes_per_op"`
	AllocsPerOp    *float64 `json:"allocs_per_op"`
	HeapBytesPerOp *float64 `json:"heap_bytes_per_op"`
	SubjectPeak    int64    `json:"subject_peak_bytes"`
	PeerPeak       int64    `json:"peer_peak_bytes"`
	WaitsPerOp     float64  `json:"waits_per_op"`
	FsyncsPerOp    *float64 `json:"fsyncs_per_op"`
}

// title names a line among those of its workload.
func (l line) title() string { return l.Name + " vs. " + l.Peer }

// A verdict says how a line stands to what it should be.
type verdict string

const (
	reached verdict = "reached" // its whole interval is
	near    verdict = "near"    // the interval holds the target
	missed  verdict = "missed"
	open    verdict = "open" // nothing was promised
)

func (l line) verdict() verdict {
	switch {
	case l.AtLeast == 0:
		return open
	case l.RatioLow >= l.AtLeast:
		return reached
	case l.RatioHigh < l.AtLeast:
		return missed
	}
	return near
}

var errNothing = errors.New("the input has no lines")

func report(in io.Reader, out io.Writer) error {
	var r run
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("read the run: %w", err)
	}
	if len(r.Lines) == 0 {
		return errNothing
	}
	for i, l := range r.Lines {
		// A logarithmic axis has no place for anything else.
		if !(l.Ratio > 0 && l.RatioLow > 0 && l.RatioHigh >= l.RatioLow) {
			return fmt.Errorf("line %d, %s: a ratio of %v in %v–%v", i, l.title(), l.Ratio, l.RatioLow, l.RatioHigh)
		}
	}
	return writePage(out, r)
}
