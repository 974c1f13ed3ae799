package main

import (
	"strings"
	"testing"
)

// The workloads as standard benchmarks, one sub-benchmark for each place, for
// benchstat, the profilers and whoever tunes one of them:
//
//	go test ./bench -run '^$' -bench 'Insert1/greenroom' -count 10 -cpuprofile cpu.out
//
// A side alone says nothing about its peers: places are measured one after the
// other here, not in turns. That is what the program is for.

func BenchmarkInsert1(b *testing.B) { benchmark(b, "sqlite/insert-1") }

func BenchmarkBulk(b *testing.B) { benchmark(b, "sqlite/bulk") }

func BenchmarkBlob(b *testing.B) { benchmark(b, "sqlite/blob") }

func BenchmarkPointRead(b *testing.B) { benchmark(b, "sqlite/point") }

func BenchmarkRange(b *testing.B) { benchmark(b, "sqlite/range") }

func BenchmarkScan(b *testing.B) { benchmark(b, "sqlite/scan") }

func BenchmarkMix(b *testing.B) { benchmark(b, "sqlite/mix") }

func BenchmarkIndex(b *testing.B) { benchmark(b, "sqlite/index") }

func BenchmarkVacuum(b *testing.B) { benchmark(b, "sqlite/vacuum") }

// BenchmarkOpen opens a database that is nowhere open, reads a row and closes it.
func BenchmarkOpen(b *testing.B) {
	for _, l := range openLines(enginePebble) {
		for _, s := range []side{l.subject, l.peer} {
			b.Run(s.name, func(b *testing.B) { s.benchmark(b, enginePebble) })
		}
	}
}

// benchmark runs a workload on both engines and in the places of its peers.
func benchmark(b *testing.B, name string) {
	for _, w := range workloads() {
		if w.name != name {
			continue
		}
		b.Run("greenroom-mem", func(b *testing.B) { w.benchmark(b, engineMem, "greenroom-mem") })
		for _, place := range append([]string{"greenroom-pebble"}, w.peers...) {
			b.Run(place, func(b *testing.B) { w.benchmark(b, enginePebble, place) })
		}
		return
	}
	b.Fatalf("no workload is called %q", name)
}

func (w workload) benchmark(b *testing.B, engine, place string) {
	w.side(place).benchmark(b, engine)
}

func (s side) benchmark(b *testing.B, engine string) {
	r, err := s.open(b.Context(), site{dir: b.TempDir(), engine: engine, sizes: fullSizes()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.close(); err != nil {
			b.Error(err)
		}
	})
	if err := r.run(b.Context(), 1); err != nil { // the first transaction of a file is another one
		b.Fatal(err)
	}
	before := r.counts()
	b.ReportAllocs()
	b.ResetTimer()
	if err := r.run(b.Context(), b.N); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if c := minus(r.counts(), before); strings.HasPrefix(s.name, "greenroom") {
		b.ReportMetric(float64(c.Gets+c.Scans)/float64(b.N), "reads/op")
		b.ReportMetric(float64(c.Commits)/float64(b.N), "commits/op")
	}
}
