package main

import (
	"math"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// onPebble measures the subject of a line for one round of so many operations. An fsync
// takes a millisecond at least: on a disk that is memory none would wait for another's.
func onPebble(t *testing.T, title string, of sizes, n int) (r result) {
	t.Helper()
	l := linesOf(title)[0]
	staged(t, site{on: enginePebble, sizes: of}, func(s *stand) {
		s.fsyncs.during = func() { <-time.After(time.Millisecond) }
		l.subject.open(s)
		r = result{line: l, ops: n}
		r.playSubject(s)
	})
	return r
}

// TestFsyncs: one actor's commit takes an fsync, and those of many at once share them.
func TestFsyncs(t *testing.T) {
	s := tinySizes()
	for title, want := range map[string]float64{
		"sqlite/insert-1 " + rawEngine: 1, "queue/cycle " + sqliteFile: cycleCommits, "sqlite/point " + memoryVFS: 0,
	} {
		const n = 50
		if r := onPebble(t, title, s, n); r.fsyncs != want*n || float64(r.waits()) != want*n {
			t.Errorf("%d of %s take %v fsyncs and %d waits, want %v of each", n, title, r.fsyncs, r.waits(), want*n)
		}
	}
	s.actors = fullSizes.actors
	for _, title := range []string{"sqlite/insert-200 " + rawEngine, "kv/put " + rawEngine, "host/turn " + rawEngine} {
		n := 20 * s.actors
		r := onPebble(t, title, s, n)
		t.Logf("%s: %v fsyncs an operation, %v waits, %v commits", title, r.each(r.fsyncs), r.perOp(r.waits()), r.perOp(r.counts.Commits))
		if commits := r.counts.Commits; !(r.fsyncs > 0 && 2*r.fsyncs <= float64(commits)) {
			t.Errorf("%s: %d commits of %d actors at once take %v fsyncs, want half as many at most", title, commits, s.actors, r.fsyncs)
		}
	}
}

// measured measures a line in a folder of the test.
func measured(t *testing.T, l line, at site, p plan) result {
	t.Helper()
	s := begin(t.Context())
	at.dir = t.TempDir()
	s.site = at
	r, err := s.measure(l, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFsyncsUnknown: what an engine can't tell is not 0.
func TestFsyncsUnknown(t *testing.T) {
	r := measured(t, linesOf("sqlite/ops")[0], site{on: engineMem, sizes: tinySizes()}, onePass(2))
	if got := r.record().FsyncsPerOp; !math.IsNaN(r.fsyncs) || got != nil {
		t.Errorf("the engine in memory took %v fsyncs, %v an operation", r.fsyncs, *got)
	}
}

// speedtestInMemory is the line that TestElsewhere measures, and TestLines does not.
const speedtestInMemory = "sqlite/speedtest1 " + memoryVFS

// TestElsewhere: of a subject that is a program of its own nothing tells what it allocated,
// but it says what its engine was asked for, and the fsyncs.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	if _, ok := peersDir(); !ok {
		t.Skip("no Go to build the program with")
	}
	l := linesOf(speedtestInMemory)[0]
	r := measured(t, l, site{bin: testkit.SharedDir(t), on: enginePebble, sizes: tinySizes()}, onePass(1))
	of := r.record()
	if of.AllocsPerOp != nil || of.HeapBytesPerOp != nil {
		t.Errorf("another process allocated %v objects", *of.AllocsPerOp)
	}
	if of.FsyncsPerOp == nil || *of.FsyncsPerOp <= 0 || r.counts.Commits == 0 {
		t.Errorf("%d commits took %v fsyncs an operation", r.counts.Commits, of.FsyncsPerOp)
	}
}
