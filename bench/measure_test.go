package main

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A script is a side that notes what it is asked for.
type script struct {
	name string
	log  *[]string
	// fail is the call of run that fails, counted from 1; 0 means that no call
	// fails.
	fail  int
	calls int
}

var errScript = errors.New("script failed")

func (c *script) side() side {
	return side{c.name, func(s *stand) {
		check(os.WriteFile(filepath.Join(s.dir, "data"), nil, 0o600))
		s.end(func() error { *c.log = append(*c.log, c.name+" closed"); return nil })
		s.run = func(int) error {
			*c.log = append(*c.log, c.name)
			if c.calls++; c.calls == c.fail {
				return errScript
			}
			return nil
		}
		s.say = func(n int, t *tally) {
			t.counts = faultkv.Counts{Gets: 2 * int64(n), Commits: int64(n), Bytes: 10 * int64(n)}
		}
	}}
}

// measureIn measures a line in a folder.
func measureIn(ctx context.Context, dir string, l line, p plan) (result, error) {
	s := begin(ctx)
	s.dir = dir
	return s.measure(l, p)
}

// onePass is a plan whose warm-up is one call of each side.
func onePass(rounds int) plan { return plan{rounds: rounds, round: time.Nanosecond} }

// TestSettledRounds tests that rounds with a backup, on either side, take as long as it waits before it stores a segment, and others don't.
func TestSettledRounds(t *testing.T) {
	plain, backed := &stand{}, &stand{after: func() error { return nil }}
	for _, tt := range []struct {
		subject, peer *stand
		want          time.Duration
	}{
		{plain, plain, fullPlan.round}, {backed, plain, time.Second}, {plain, backed, time.Second},
	} {
		if got := fullPlan.of(tt.subject, tt.peer); got != tt.want {
			t.Errorf("a part of a round takes %v, want %v", got, tt.want)
		}
	}
}

func TestMeasureTakesTurns(t *testing.T) {
	var log []string
	subject, peer := &script{name: "s", log: &log}, &script{name: "p", log: &log}
	dir := t.TempDir()
	l := line{name: "test/turns", unit: "op/s", subject: subject.side(), peer: peer.side()}
	r, err := measureIn(t.Context(), dir, l, onePass(3))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"s", "p", "s", "p", "p", "s", "s", "p", "p closed", "s closed"}
	if !slices.Equal(log, want) {
		t.Errorf("order %q, want %q", log, want)
	}
	if len(r.rates.subject) != 3 || len(r.rates.peer) != 3 {
		t.Errorf("%d and %d throughputs, want 3 and 3", len(r.rates.subject), len(r.rates.peer))
	}
	// The warm-up isn't counted, and neither is the peer.
	if got, want := r.counts, (faultkv.Counts{Gets: int64(6 * r.ops), Commits: int64(3 * r.ops), Bytes: int64(30 * r.ops)}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	if got := r.perOp(r.reads()); got != 2 {
		t.Errorf("reads per operation = %v, want 2", got)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestMeasureFails(t *testing.T) {
	for _, tt := range []struct {
		name          string
		subject, peer int // the failing call
	}{
		{"subject's warm-up", 1, 0}, {"peer's warm-up", 0, 1},
		{"subject's round", 2, 0}, {"peer's round", 0, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log []string
			subject, peer := &script{name: "s", log: &log, fail: tt.subject}, &script{name: "p", log: &log, fail: tt.peer}
			dir := t.TempDir()
			l := line{name: "test/fails", subject: subject.side(), peer: peer.side()}
			if _, err := measureIn(t.Context(), dir, l, onePass(2)); !errors.Is(err, errScript) {
				t.Errorf("error %v, want %v", err, errScript)
			}
			if n := len(log); n < 2 || log[n-2] != "p closed" || log[n-1] != "s closed" {
				t.Errorf("not closed: %q", log)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// TestMeasureClosesSubject: a peer that doesn't open must not leave the subject
// open.
func TestMeasureClosesSubject(t *testing.T) {
	var log []string
	subject := &script{name: "s", log: &log}
	peer := side{"p", func(*stand) { check(errScript) }}
	_, err := measureIn(t.Context(), t.TempDir(), line{subject: subject.side(), peer: peer}, onePass(1))
	if !errors.Is(err, errScript) {
		t.Errorf("error %v, want %v", err, errScript)
	}
	if want := []string{"s closed"}; !slices.Equal(log, want) {
		t.Errorf("order %q, want %q", log, want)
	}
}

func TestMeasureStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var log []string
	subject, peer := &script{name: "s", log: &log}, &script{name: "p", log: &log}
	cancel()
	l := line{subject: subject.side(), peer: peer.side()}
	if _, err := measureIn(ctx, t.TempDir(), l, onePass(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if slices.Contains(log, "s") || slices.Contains(log, "p") {
		t.Errorf("worked after it was cancelled: %q", log)
	}
}

// TestTallyPlus: every number of a tally is added.
func TestTallyPlus(t *testing.T) {
	a, b := tally{took: 50, cpu: 60, fsyncs: 40, logged: 70, allocs: 30, allocBytes: 20}, tally{took: 5, cpu: 6, fsyncs: 4, logged: 7, allocs: 3, allocBytes: 2}
	want := tally{took: 40, cpu: 48, fsyncs: 32, logged: 56, allocs: 24, allocBytes: 16}
	for i := range reflect.TypeFor[faultkv.Counts]().NumField() {
		for at, n := range map[*tally]int{&a: 90, &b: i, &want: 90 - 2*i} {
			reflect.ValueOf(&at.counts).Elem().Field(i).SetInt(int64(n))
		}
	}
	if got := a.plus(b, -2); got != want {
		t.Errorf("%+v less twice %+v is %+v, want %+v", a, b, got, want)
	}
	if got := a.plus(tally{fsyncs: math.NaN()}, 1).fsyncs; !math.IsNaN(got) {
		t.Errorf("%v fsyncs, part of which aren't known", got)
	}
}

// TestAllocations: what is allocated counts at once, and not when a collection comes by; of
// another process it isn't known.
func TestAllocations(t *testing.T) {
	var kept *[32]byte
	s := begin(t.Context())
	s.workers = []worker{repeat(func() error { kept = new([32]byte); return nil })}
	const n = 100
	if got := s.play(n); got.allocs < n || got.allocBytes < 32*n {
		t.Errorf("%v objects of %v bytes, want at least %d of %d", got.allocs, got.allocBytes, n, 32*n)
	}
	s.say = func(_ int, t *tally) { t.allocs, t.allocBytes = math.NaN(), math.NaN() }
	if got := s.play(n); !math.IsNaN(got.allocs) || !math.IsNaN(got.allocBytes) {
		t.Errorf("%v objects of %v bytes of another process", got.allocs, got.allocBytes)
	}
	runtime.KeepAlive(kept)
}
