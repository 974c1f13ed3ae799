package main

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// sampledResult is a result whose numbers are easy to follow.
func sampledResult() result {
	return result{
		line:  line{name: "sqlite/point", unit: "query/s", subject: side{name: "greenroom-pebble"}, peer: side{name: "file-wal-full"}, atLeast: 1},
		rates: sample{subject: []float64{100, 100, 400, 400, 250, 250, 250, 250}, peer: []float64{100, 100, 100, 100, 100, 100, 100, 100}},
		ops:   25,
		tally: tally{
			counts: faultkv.Counts{Gets: 90, Scans: 10, Commits: 200, Bytes: 820_000, Ops: 400, Durable: 100, Syncs: 50},
			allocs: 1000, allocBytes: 64_000, fsyncs: 20, logged: 60_000, cpu: 0.004,
		},
		peerCPU:     0.006,
		subjectTook: latencies{100_000: 40, 200_000: 120, 1_000_000: 40}, peerTook: latencies{100_000: 200},
	}
}

// sampled is its record.
func sampled() record {
	r := sampledResult().record()
	r.Environment = "a server"
	return r
}

// TestJSONLine holds the format that other programs read.
func TestJSONLine(t *testing.T) {
	var b strings.Builder
	for range 2 {
		check(json.NewEncoder(&b).Encode(sampled()))
	}
	want := `{"name":"sqlite/point","subject":"greenroom-pebble","peer":"file-wal-full","ratio":2.5,"unit":"query/s",` +
		`"subject_median":250,"peer_median":100,"rounds":8,"reads_per_op":0.5,"commits_per_op":1,` +
		`"ratio_low":1,"ratio_high":4,"at_least":1,"syncs_per_op":0.75,"bytes_per_op":4100,` +
		`"allocs_per_op":5,"heap_bytes_per_op":320,"environment":"a server",` +
		`"waits_per_op":0.75,"fsyncs_per_op":0.1,"log_bytes_per_op":300,` +
		`"cpu_us":{"subject":20,"peer":30,"ratio":1.5},"p50_us":{"subject":200,"peer":100,"ratio":0.5},"p99_us":{"subject":1000,"peer":100,"ratio":0.1}}` + "\n"
	if got := b.String(); got != want+want {
		t.Errorf("two results print\n%swant twice\n%s", got, want)
	}
	var back record
	if err := json.Unmarshal([]byte(want), &back); err != nil {
		t.Fatal(err)
	}
	if want := sampled(); !reflect.DeepEqual(back, want) {
		t.Errorf("read back %+v, want %+v", back, want)
	}
}

// TestJSONUnknown: what can't be known is not in a record, and an empty cell of the table.
func TestJSONUnknown(t *testing.T) {
	r := sampledResult()
	nan := math.NaN()
	r.allocs, r.allocBytes, r.fsyncs, r.logged = nan, nan, nan, nan
	r.cpu, r.peerTook = nan, nil
	text, err := json.Marshal(r.record())
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"allocs_per_op", "heap_bytes_per_op", "fsyncs_per_op", "log_bytes_per_op"} {
		if v, ok := got[name]; ok {
			t.Errorf("%s is %v, want none", name, v)
		}
	}
	if got["syncs_per_op"] != 0.75 || got["waits_per_op"] != 0.75 {
		t.Errorf("waits %v and, by the older name, %v; want 0.75", got["waits_per_op"], got["syncs_per_op"])
	}
	for i, cell := range r.record().row() {
		if unknown := i == 11 || i > 12; unknown != (cell == "") {
			t.Errorf("%s is %q", columns[i], cell)
		}
	}
	want := []string{"sqlite/point", "file-wal-full", "", "30", "", "200", "", "", "1000", "", ""}
	if got := r.record().times(); !slices.Equal(got, want) || len(got) != len(timeColumns) {
		t.Errorf("of what an operation takes %q is known, want %q", got, want)
	}
	// Nothing allocated is known.
	r.allocs = 0
	if got := known(r.record().AllocsPerOp); got != "0" {
		t.Errorf("no allocations are %q", got)
	}
	// On another engine nothing is promised.
	r.line.subject.name = greenroomOn(engineMem)
	if got := r.record(); got.AtLeast != 0 || got.row()[4] != "" {
		t.Errorf("%v is wanted of the engine in memory", got.AtLeast)
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := writeTable(&b, columns, [][]string{sampled().row(), sampled().row()}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 6 { // two rows in a frame, under a head
		t.Fatalf("the table has %d lines, want 6:\n%s", len(lines), b.String())
	}
	want := []string{
		"sqlite/point", "file-wal-full", "2.5", "1–4",
		"1", "250 query/s", "100 query/s", "8", "0.5", "1", "0.75", "0.1", "4100", "300", "5", "320", "",
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
