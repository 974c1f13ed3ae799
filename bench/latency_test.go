package main

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestStopwatch: every operation has its own time, whichever worker did it, and what a worker
// waits for before its first one doesn't count.
func TestStopwatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t.Context())
		for i := range 3 {
			s.workers = append(s.workers, func(more func() bool) error {
				time.Sleep(time.Minute)
				return repeat(func() error { time.Sleep(time.Duration(1+i) * time.Second); return nil })(more)
			})
		}
		for range 2 { // the second time the same memory is used
			if err := s.do(11); err != nil {
				t.Fatal(err)
			}
			slices.Sort(s.took)
			var got [4]int
			for _, d := range s.took {
				got[d/time.Second]++
			}
			if want := [4]int{0, 6, 3, 2}; got != want {
				t.Errorf("%v operations took 0, 1, 2 and 3 seconds, want %v", got, want)
			}
		}
	})
}

func TestLatencies(t *testing.T) {
	if got := (latencies{}).quantile(0.5); !math.IsNaN(got) {
		t.Errorf("half of no operations were done within %v s", got)
	}
	l, took := latencies{}, make([]time.Duration, 1000)
	for i := range took {
		took[i] = time.Duration(1+i) * time.Millisecond
	}
	l.add(took[:300])
	l.add(took[300:])
	for _, tt := range []struct{ q, want float64 }{{0.001, 0.001}, {0.5, 0.5}, {0.99, 0.99}, {1, 1}} {
		if got := l.quantile(tt.q); got > tt.want || got < tt.want*127/128 {
			t.Errorf("the %v-quantile is %v s, want %v", tt.q, got, tt.want)
		}
	}
	// Short ones are counted to the nanosecond.
	l = latencies{}
	l.add([]time.Duration{0, 1, 255})
	for i, want := range []float64{0, 1e-9, 255e-9} {
		if got := l.quantile(float64(1+i) / 3); got != want {
			t.Errorf("quantile %d of 3 is %v s, want %v", 1+i, got, want)
		}
	}
}

// TestProcessorTime: what a side computes is on its bill.
func TestProcessorTime(t *testing.T) {
	s := begin(t.Context())
	s.run = func(int) error {
		for before := cpuTime(); cpuTime()-before < 0.01; { // nothing happens where it isn't known
		}
		return nil
	}
	if got := s.play(1); got.cpu < 0.01 {
		t.Errorf("%v s of processor time, want more than 0.01", got.cpu)
	}
}
