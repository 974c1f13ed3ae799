package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// sampled is a result whose numbers are easy to follow.
func sampled() result {
	return result{
		line:   line{name: "sqlite/point", unit: "query/s", subject: side{name: "greenroom-pebble"}, peer: side{name: "file-wal-full"}},
		rates:  sample{subject: []float64{300, 100, 200, 400}, peer: []float64{90, 100, 110, 100}},
		ops:    50,
		counts: faultkv.Counts{Gets: 90, Scans: 10, Commits: 200, Bytes: 820_000, Ops: 400, Durable: 100, Syncs: 50},
		allocs: measured{1000, true}, allocBytes: measured{64_000, true}, fsyncs: measured{20, true},
		subjectPeak: 5 << 20, peerPeak: 4 << 20, environment: "a server",
	}
}

// TestJSONLine holds the format that other programs read.
func TestJSONLine(t *testing.T) {
	var b strings.Builder
	for range 2 {
		if err := writeJSON(&b, sampled()); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"name":"sqlite/point","subject":"greenroom-pebble","peer":"file-wal-full","ratio":2.5,"unit":"query/s",` +
		`"subject_median":250,"peer_median":100,"rounds":4,"reads_per_op":0.5,"commits_per_op":1,` +
		`"ratio_low":1,"ratio_high":4,"at_least":1,"syncs_per_op":0.75,"bytes_per_op":4100,` +
		`"allocs_per_op":5,"heap_bytes_per_op":320,"subject_peak_bytes":5242880,"peer_peak_bytes":4194304,"environment":"a server",` +
		`"waits_per_op":0.75,"fsyncs_per_op":0.1}` + "\n"
	if got := b.String(); got != want+want {
		t.Errorf("two results print\n%swant twice\n%s", got, want)
	}
	var back record
	if err := json.Unmarshal([]byte(want), &back); err != nil {
		t.Fatal(err)
	}
	if want := sampled().record(); !reflect.DeepEqual(back, want) {
		t.Errorf("read back %+v, want %+v", back, want)
	}
}

// TestJSONUnknown: what can't be known is not in a record, and an empty cell of the table.
func TestJSONUnknown(t *testing.T) {
	r := sampled()
	r.allocs, r.allocBytes, r.fsyncs, r.subjectPeak, r.peerPeak = measured{}, measured{}, measured{}, 0, 0
	var b strings.Builder
	if err := writeJSON(&b, r); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"allocs_per_op", "heap_bytes_per_op", "fsyncs_per_op", "subject_peak_bytes", "peer_peak_bytes"} {
		if v, ok := got[name]; ok {
			t.Errorf("%s is %v, want none", name, v)
		}
	}
	if got["syncs_per_op"] != 0.75 || got["waits_per_op"] != 0.75 {
		t.Errorf("waits %v and, by the older name, %v; want 0.75", got["waits_per_op"], got["syncs_per_op"])
	}
	for _, c := range columns[len(columns)-5:] {
		if cell := c.cell(r.record()); cell != "" && c.head != "written B/op" {
			t.Errorf("%s is %q", c.head, cell)
		}
	}
	// Nothing allocated is known.
	r.allocs.known = true
	if got := known(r.record().AllocsPerOp); got != "0" {
		t.Errorf("no allocations are %q", got)
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := writeTable(&b, []result{sampled(), sampled()}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 6 { // two rows in a frame, under a head
		t.Fatalf("the table has %d lines, want 6:\n%s", len(lines), b.String())
	}
	in := sampled().rates.spread()
	want := []string{
		"sqlite/point", "file-wal-full", "2.5", significant(in.low) + "–" + significant(in.high),
		"1", "250 query/s", "100 query/s", "4", "0.5", "1", "0.75", "0.1", "4100", "5", "320", "5", "4",
	}
	var got []string
	for _, cell := range strings.Split(strings.Trim(lines[3], "│"), "│") {
		got = append(got, strings.TrimSpace(cell))
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("row is\n%q\nwant\n%q", got, want)
	}
}

func TestSignificant(t *testing.T) {
	for _, tt := range []struct {
		x    float64
		want string
	}{
		{0, "0"}, {0.123456, "0.123"}, {1, "1"}, {2.345, "2.35"}, {99.94, "99.9"},
		{100, "100"}, {12345.6, "12346"}, {1e9, "1000000000"}, {-250.4, "-250"},
	} {
		if got := significant(tt.x); got != tt.want {
			t.Errorf("significant(%v) = %q, want %q", tt.x, got, tt.want)
		}
	}
}
