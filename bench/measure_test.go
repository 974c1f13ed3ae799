package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A script is a runner that notes what it is asked for.
type script struct {
	name string
	log  *[]string
	// fail is the call of run that fails, counted from 1; 0 is none.
	fail  int
	calls int
	n     int64
}

var errScript = errors.New("script failed")

func (s *script) run(_ context.Context, n int) error {
	*s.log = append(*s.log, s.name)
	s.n += int64(n)
	if s.calls++; s.calls == s.fail {
		return errScript
	}
	return nil
}

func (s *script) counts() faultkv.Counts {
	return faultkv.Counts{Gets: 2 * s.n, Commits: s.n, Bytes: 10 * s.n}
}

func (s *script) close() error {
	*s.log = append(*s.log, s.name+" closed")
	return nil
}

func (s *script) side() side {
	return side{s.name, func(_ context.Context, at site) (runner, error) {
		return s, os.WriteFile(filepath.Join(at.dir, "data"), nil, 0o600)
	}}
}

// onePass is a plan whose warm-up is one call of each side.
func onePass(rounds int) plan { return plan{rounds: rounds, round: time.Nanosecond} }

func TestMeasureTakesTurns(t *testing.T) {
	var log []string
	subject, peer := &script{name: "s", log: &log}, &script{name: "p", log: &log}
	dir := t.TempDir()
	l := line{name: "test/turns", unit: "op/s", subject: subject.side(), peer: peer.side()}
	r, err := measure(t.Context(), l, site{dir: dir}, onePass(3))
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
			if _, err := measure(t.Context(), l, site{dir: dir}, onePass(2)); !errors.Is(err, errScript) {
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
	peer := side{"p", func(context.Context, site) (runner, error) { return nil, errScript }}
	_, err := measure(t.Context(), line{subject: subject.side(), peer: peer}, site{dir: t.TempDir()}, onePass(1))
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
	if _, err := measure(ctx, l, site{dir: t.TempDir()}, onePass(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if slices.Contains(log, "s") || slices.Contains(log, "p") {
		t.Errorf("worked after it was cancelled: %q", log)
	}
}

func TestCountsMinus(t *testing.T) {
	a := faultkv.Counts{Gets: 9, Scans: 8, Snapshots: 7, Commits: 6, Durable: 5, Ops: 4, Bytes: 3, Syncs: 2}
	b := faultkv.Counts{Gets: 1, Scans: 1, Snapshots: 1, Commits: 1, Durable: 1, Ops: 1, Bytes: 1, Syncs: 1}
	want := faultkv.Counts{Gets: 8, Scans: 7, Snapshots: 6, Commits: 5, Durable: 4, Ops: 3, Bytes: 2, Syncs: 1}
	if got := minus(a, b); got != want {
		t.Errorf("minus = %+v, want %+v", got, want)
	}
	if got := plus(want, b); got != a {
		t.Errorf("plus = %+v, want %+v", got, a)
	}
}
