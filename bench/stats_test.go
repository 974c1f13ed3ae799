package main

import (
	"math"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		xs   []float64
		want float64
	}{
		{[]float64{7}, 7},
		{[]float64{3, 1}, 2},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{1, 1, 1, 1000}, 1},
	} {
		before := slices.Clone(tt.xs)
		if got := median(tt.xs); got != tt.want {
			t.Errorf("median(%v) = %v, want %v", tt.xs, got, tt.want)
		}
		if !slices.Equal(tt.xs, before) {
			t.Errorf("median reordered %v to %v", before, tt.xs)
		}
	}
}

func TestQuantile(t *testing.T) {
	sorted := []float64{10, 20, 30, 40, 50}
	for _, tt := range []struct{ q, want float64 }{
		{0, 10}, {0.25, 20}, {0.375, 25}, {0.5, 30}, {0.9, 46}, {1, 50},
	} {
		if got := quantile(sorted, tt.q); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("quantile(%v) = %v, want %v", tt.q, got, tt.want)
		}
	}
}

func TestRatio(t *testing.T) {
	// One bad round of either side moves nothing.
	s := sample{subject: []float64{200, 210, 1, 200, 190}, peer: []float64{100, 1, 100, 105, 95}}
	if got := s.ratio(); got != 2 {
		t.Errorf("ratio = %v, want 2", got)
	}
}

// TestSpread holds the interval against what is known of it: it is a point when
// there is no noise, holds the ratio, doesn't grow by noise that both sides share,
// and grows by noise that they don't.
func TestSpread(t *testing.T) {
	flat := sample{subject: []float64{200, 200, 200}, peer: []float64{100, 100, 100}}
	if got := flat.spread(); got != (interval{2, 2}) {
		t.Errorf("spread without noise = %v, want [2, 2]", got)
	}
	var shared, own sample
	for i := range 21 {
		x := 100 + 5*float64(i*8%21)
		y := 100 + 5*float64(i*13%21)
		shared.subject, shared.peer = append(shared.subject, 2*x), append(shared.peer, x)
		own.subject, own.peer = append(own.subject, 2*x), append(own.peer, y)
	}
	if got := shared.spread(); math.Abs(got.low-2) > 1e-9 || math.Abs(got.high-2) > 1e-9 {
		t.Errorf("spread with shared noise = %v, want [2, 2]", got)
	}
	got := own.spread()
	if r := own.ratio(); got.low > r || got.high < r || got.low == got.high {
		t.Errorf("spread = %v does not surround the ratio %v", got, r)
	}
	if again := own.spread(); again != got {
		t.Errorf("spread of the same sample = %v, then %v", got, again)
	}
}

// TestSpreadCovers draws many samples whose true ratio is known; about 95 % of
// the intervals must hold it.
func TestSpreadCovers(t *testing.T) {
	const trials = 200
	rnd := newRand(7)
	held := 0
	for range trials {
		var s sample
		for range 21 {
			s.subject = append(s.subject, 300*math.Exp(0.1*rnd.NormFloat64()))
			s.peer = append(s.peer, 100*math.Exp(0.1*rnd.NormFloat64()))
		}
		if in := s.spread(); in.low <= 3 && 3 <= in.high {
			held++
		}
	}
	if held < trials*88/100 || held == trials {
		t.Errorf("%d of %d intervals hold the true ratio, want about 95 %%", held, trials)
	}
}
