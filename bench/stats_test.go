package main

import (
	"math"
	"testing"
)

// TestRatio: a bad round of either side moves nothing, and noise that both sides share doesn't
// widen the interval, but noise of their own does.
func TestRatio(t *testing.T) {
	s := sample{subject: []float64{200, 210, 1, 200, 190}, peer: []float64{100, 1, 100, 105, 95}}
	if got, low, high := s.ratio(); got != 2 || low != 0 || high != 0 {
		t.Errorf("ratio = %v in %v–%v, want 2 and too few rounds for an interval", got, low, high)
	}
	var shared, own sample
	for i := range 21 {
		x, y := 100+5*float64(i*8%21), 100+5*float64(i*13%21)
		shared.subject, shared.peer = append(shared.subject, 2*x), append(shared.peer, x)
		own.subject, own.peer = append(own.subject, 2*x), append(own.peer, y)
	}
	if got, low, high := shared.ratio(); got != 2 || low != 2 || high != 2 {
		t.Errorf("with shared noise %v in %v–%v, want 2", got, low, high)
	}
	if got, low, high := own.ratio(); low >= got || high <= got {
		t.Errorf("%v–%v does not surround the ratio %v", low, high, got)
	}
}

// TestRatioCovers draws many samples whose true ratio is known; about 95 % of the intervals
// must hold it, with as many rounds as there are at least.
func TestRatioCovers(t *testing.T) {
	const trials = 200
	for _, rounds := range []int{leastRounds, fullPlan.rounds} {
		rnd := newRand(7)
		held := 0
		for range trials {
			var s sample
			for range rounds {
				s.subject = append(s.subject, 300*math.Exp(0.1*rnd.NormFloat64()))
				s.peer = append(s.peer, 100*math.Exp(0.1*rnd.NormFloat64()))
			}
			if _, low, high := s.ratio(); low <= 3 && 3 <= high {
				held++
			}
		}
		if held < trials*88/100 || held == trials {
			t.Errorf("%d of %d intervals of %d rounds hold the true ratio, want about 95 %%", held, trials, rounds)
		}
	}
}
