package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv/faultkv"
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

// BenchmarkUpdate makes transactions of one row through package greenroom, and below it.
func BenchmarkUpdate(b *testing.B) { benchmarkLines(b, doorLines(enginePebble)) }

// BenchmarkOpen opens a database that is nowhere open, reads a row and closes it.
func BenchmarkOpen(b *testing.B) { benchmarkLines(b, openLines(enginePebble)) }

// BenchmarkReaders has four connections read ranges, at half the rate that they reach alone,
// beside one that commits. What they keep of that rate is "kept".
func BenchmarkReaders(b *testing.B) {
	s := readersLines(enginePebble)[0].subject
	b.Run(s.name, func(b *testing.B) { s.benchmark(b, enginePebble) })
}

// BenchmarkSpeedtest1 runs SQLite's speedtest1 in a program of its own, which is built first.
func BenchmarkSpeedtest1(b *testing.B) { benchmarkLines(b, speedtestLines(enginePebble)) }

// BenchmarkTurn calls actions of a host's actors, 200 at once; BenchmarkTurnMany 2,000.
func BenchmarkTurn(b *testing.B) { benchmarkLines(b, linesOf(hostLines(enginePebble), "host/turn")) }

func BenchmarkTurnMany(b *testing.B) {
	benchmarkLines(b, linesOf(hostLines(enginePebble), "host/turn-many"))
}

// BenchmarkSpan records spans; its peer is a program of its own, which is built first.
func BenchmarkSpan(b *testing.B) { benchmarkLines(b, tracesLines(enginePebble)) }

// BenchmarkCrowd is every job on Pebble, on all sides: by many actors, but for NAME/one,
// which is by a single one.
func BenchmarkCrowd(b *testing.B) {
	for _, j := range jobs() {
		b.Run(j.name, func(b *testing.B) {
			lines := linesOf(crowdLines(enginePebble), j.name)
			if peers := crowdPeers[j.name]; len(peers) == 0 || peers[0].actors != 1 {
				benchmarkLines(b, lines)
				return
			}
			benchmarkLines(b, lines[1:])
			b.Run("one", func(b *testing.B) { benchmarkLines(b, lines[:1]) })
		})
	}
}

// linesOf returns the lines of a workload.
func linesOf(lines []line, name string) []line {
	return slices.DeleteFunc(lines, func(l line) bool { return l.name != name })
}

// benchmarkLines runs both sides of lines of one workload, each side once.
func benchmarkLines(b *testing.B, lines []line) {
	if len(lines) == 0 {
		b.Skip("the source of a peer, or Go to build it with, isn't here")
	}
	sides := []side{lines[0].subject}
	for _, l := range lines {
		sides = append(sides, l.peer)
	}
	for _, s := range sides {
		b.Run(s.name, func(b *testing.B) { s.benchmark(b, enginePebble) })
	}
}

// benchmark runs a workload on both engines and in the places of its peers, and in memory,
// which is what a VFS costs at least.
func benchmark(b *testing.B, name string) {
	for _, w := range workloads() {
		if w.name != name {
			continue
		}
		places := append([]string{"greenroom-pebble"}, w.peers...)
		if !slices.Contains(places, memoryVFS) {
			places = append(places, memoryVFS)
		}
		b.Run("greenroom-mem", func(b *testing.B) { w.side("greenroom-mem").benchmark(b, engineMem) })
		for _, place := range places {
			b.Run(place, func(b *testing.B) { w.side(place).benchmark(b, enginePebble) })
		}
		return
	}
	b.Fatalf("no workload is called %q", name)
}

// benchmark runs one side. Its first operations, of each actor where there are many, are
// other ones than the later, and not counted.
func (s side) benchmark(b *testing.B, engine string) {
	at := site{dir: b.TempDir(), engine: engine, sizes: fullSizes(), fsyncs: new(fsyncMeter)}
	r, err := s.open(b.Context(), at)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.close(); err != nil {
			b.Error(err)
		}
	})
	first := 1
	switch r.(type) {
	case *crowd, *rawCrowd, *turnHost:
		first = 2 * at.sizes.actors
	}
	if err := r.run(b.Context(), first); err != nil {
		b.Fatal(err)
	}
	c := &contestant{runner: r, fsyncs: at.fsyncs.count}
	if p, ok := r.(*peer); ok {
		c.fsyncs = func() measured { return p.fsyncs }
	} else {
		b.ReportAllocs()
	}
	before, fsyncs, spent := r.counts(), c.fsyncs(), ownClock(r)
	b.ResetTimer()
	if err := r.run(b.Context(), b.N); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if r, ok := r.(*readers); ok {
		b.ReportMetric(rate(b.N, ownClock(r)-spent)/r.pace, "kept")
	}
	report(b, minus(r.counts(), before), c.fsyncs().since(fsyncs), strings.HasPrefix(s.name, "greenroom"))
}

// report says what an operation asked of the engine: of a subject always, of others where
// they have one.
func report(b *testing.B, c faultkv.Counts, fsyncs measured, subject bool) {
	each := func(n int64) float64 { return float64(n) / float64(b.N) }
	if subject {
		b.ReportMetric(each(c.Gets+c.Scans), "reads/op")
		b.ReportMetric(each(c.Commits), "commits/op")
	}
	if fsyncs.known {
		b.ReportMetric(each(fsyncs.n), "fsyncs/op")
	}
}
