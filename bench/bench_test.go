package main

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// The workloads as standard benchmarks, one sub-benchmark for each place, for
// benchstat, the profilers and for tuning one of them:
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
func BenchmarkUpdate(b *testing.B) { benchmarkLines(b, linesOf("door/update ")) }

// BenchmarkOpen opens a database that is nowhere open, reads a row and closes it.
func BenchmarkOpen(b *testing.B) { benchmarkLines(b, linesOf("sqlite/open ")) }

// BenchmarkReaders has four connections read ranges, at half the rate that they reach alone,
// beside one that commits. What they keep of that rate is "kept".
func BenchmarkReaders(b *testing.B) {
	s := linesOf("sqlite/readers ")[0].subject
	b.Run(s.name, func(b *testing.B) { s.benchmark(b, enginePebble) })
}

// BenchmarkSpeedtest1 runs SQLite's speedtest1 in a program of its own, which is built first.
func BenchmarkSpeedtest1(b *testing.B) { benchmarkLines(b, linesOf("sqlite/speedtest1 ")) }

// BenchmarkTurn calls actions of a host's actors, 200 at once; BenchmarkTurnMany 2,000.
func BenchmarkTurn(b *testing.B) { benchmarkLines(b, linesOf("host/turn ")) }

func BenchmarkTurnMany(b *testing.B) { benchmarkLines(b, linesOf("host/turn-many ")) }

// BenchmarkSpan records spans; its peer is a program of its own, which is built first.
func BenchmarkSpan(b *testing.B) { benchmarkLines(b, linesOf("traces/span ")) }

// BenchmarkCrowd is what many actors do at once, on Pebble and on all sides, but for NAME/one,
// which is by a single one.
func BenchmarkCrowd(b *testing.B) {
	for _, name := range []string{"sqlite/insert-200", "kv/put", "queue/cycle", "workflow/step"} {
		b.Run(name, func(b *testing.B) {
			if name != "queue/cycle" {
				benchmarkLines(b, linesOf(name+" "))
				return
			}
			benchmarkLines(b, linesOf("queue/cycle "+rawEngine))
			b.Run("one", func(b *testing.B) { benchmarkLines(b, linesOf("queue/cycle "+sqliteFile)) })
		})
	}
}

// linesOf returns the lines on Pebble whose titles begin with what is given.
func linesOf(title string) []line {
	return slices.DeleteFunc(lines(enginePebble, false), func(l line) bool { return !strings.HasPrefix(l.title(), title) })
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
	all := linesOf(name + " ")
	b.Run(greenroomOn(engineMem), func(b *testing.B) { all[0].subject.benchmark(b, engineMem) })
	benchmarkLines(b, all)
	if !slices.ContainsFunc(all, func(l line) bool { return l.peer.name == memoryVFS }) {
		s := side{memoryVFS, workloadOf(name).in(memoryVFS)}
		b.Run(s.name, func(b *testing.B) { s.benchmark(b, enginePebble) })
	}
}

// workloadOf returns the first workload of that name.
func workloadOf(name string) workload {
	all := workloads()
	return all[slices.IndexFunc(all, func(w workload) bool { return w.name == name })]
}

// benchmark runs one side. Its first operations, of each actor where there are many, are
// other ones than the later, and not counted.
func (of side) benchmark(b *testing.B, engine string) {
	staged(b, site{on: engine, sizes: fullSizes, bin: b.TempDir()}, func(s *stand) {
		of.open(s)
		first := 1
		if many := len(s.workers); many > 1 {
			first = 2 * many
		}
		check(s.do(first))
		if s.memory == ownMemory {
			b.ReportAllocs()
		}
		before := s.tally()
		b.ResetTimer()
		check(s.do(b.N))
		b.StopTimer()
		t := s.tally().plus(before, -1)
		if s.say != nil {
			s.say(b.N, &t)
		}
		if *s.pace > 0 {
			b.ReportMetric(rate(b.N, t.took) / *s.pace, "kept")
		}
		each := func(n float64) float64 { return n / float64(b.N) }
		if strings.HasPrefix(of.name, "greenroom") {
			b.ReportMetric(each(float64(t.reads())), "reads/op")
			b.ReportMetric(each(float64(t.counts.Commits)), "commits/op")
		}
		if !math.IsNaN(t.fsyncs) {
			b.ReportMetric(each(t.fsyncs), "fsyncs/op")
		}
	})
}
