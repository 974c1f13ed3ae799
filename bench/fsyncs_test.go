package main

import (
	"strings"
	"testing"
	"time"
)

// onPebble measures the subject of a line for one round of so many operations. An fsync
// takes a millisecond at least: on a disk that is memory nobody would wait for another's.
func onPebble(t *testing.T, title string, s sizes, n int) result {
	t.Helper()
	for _, l := range allLines(enginePebble, false) {
		if l.title() != title {
			continue
		}
		at := site{dir: t.TempDir(), engine: enginePebble, sizes: s}.own("subject")
		at.fsyncs.during = func() { <-time.After(time.Millisecond) }
		c, err := enter(t.Context(), l, "subject", at)
		if err != nil {
			t.Fatal(err)
		}
		r := result{line: l, ops: n}
		if err := r.playSubject(c); err != nil {
			t.Fatal(err)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
		return r
	}
	t.Fatalf("no line is called %q", title)
	return result{}
}

// TestFsyncs: one actor's commit takes an fsync, and those of many at once share them.
func TestFsyncs(t *testing.T) {
	s := tinySizes()
	for title, want := range map[string]int64{
		"sqlite/insert-1 " + rawEngine: 1, "queue/cycle " + sqliteFile: cycleCommits, "sqlite/point " + memoryVFS: 0,
	} {
		const n = 50
		if r := onPebble(t, title, s, n); r.fsyncs != (measured{want * n, true}) || r.waits() != want*n {
			t.Errorf("%d of %s take %+v fsyncs and %d waits, want %d of each", n, title, r.fsyncs, r.waits(), want*n)
		}
	}
	s.actors = fullSizes().actors
	for _, title := range []string{"sqlite/insert-200 " + rawEngine, "kv/put " + rawEngine, "host/turn " + rawEngine} {
		n := 20 * s.actors
		r := onPebble(t, title, s, n)
		t.Logf("%s: %v fsyncs an operation, %v waits, %v commits", title, r.perOp(r.fsyncs.n), r.perOp(r.waits()), r.perOp(r.counts.Commits))
		if commits := r.counts.Commits; !r.fsyncs.known || r.fsyncs.n == 0 || 2*r.fsyncs.n > commits {
			t.Errorf("%s: %d commits of %d actors at once take %+v fsyncs, want half as many at most", title, commits, s.actors, r.fsyncs)
		}
	}
}

// TestFsyncsUnknown: what an engine can't tell is not 0.
func TestFsyncsUnknown(t *testing.T) {
	r, err := measure(t.Context(), opsLines(engineMem)[0], site{dir: t.TempDir(), engine: engineMem, sizes: tinySizes()}, onePass(2))
	if err != nil {
		t.Fatal(err)
	}
	if r.fsyncs.known || r.record().FsyncsPerOp != nil {
		t.Errorf("the engine in memory took %+v fsyncs", r.fsyncs)
	}
	var b strings.Builder
	if err := writeJSON(&b, r); err != nil || strings.Contains(b.String(), "fsyncs") {
		t.Errorf("%v, record %s", err, b.String())
	}
}

// TestElsewhere: of a subject that is a program of its own nobody knows what it allocated,
// but it says what its engine was asked for, and the fsyncs.
func TestElsewhere(t *testing.T) {
	if _, ok := peersDir(); !ok {
		t.Skip("no Go to build the program with")
	}
	bin := t.TempDir()
	for _, l := range speedtestLines(enginePebble)[1:] {
		r, err := measure(t.Context(), l, site{dir: t.TempDir(), bin: bin, engine: enginePebble, sizes: tinySizes()}, onePass(2))
		if err != nil {
			t.Fatal(err)
		}
		of := r.record()
		if of.AllocsPerOp != nil || of.HeapBytesPerOp != nil {
			t.Errorf("another process allocated %v objects", *of.AllocsPerOp)
		}
		if of.FsyncsPerOp == nil || *of.FsyncsPerOp <= 0 || r.counts.Commits == 0 {
			t.Errorf("%d commits took %v fsyncs an operation", r.counts.Commits, of.FsyncsPerOp)
		}
	}
}
