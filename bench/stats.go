package main

import (
	"math/rand/v2"
	"slices"
)

// A sample is what the rounds of one line measured: throughputs in operations
// per second, subject[i] and peer[i] being of the same round. The two are equally
// long and not empty.
type sample struct {
	subject, peer []float64
}

// An interval is the range in which a ratio lies.
type interval struct {
	low, high float64
}

// ratio is the subject's median over the peer's: above 1 the subject is faster.
func (s sample) ratio() float64 { return median(s.subject) / median(s.peer) }

// resamples is how many times bootstrap draws: the bounds of a 95 % interval
// then rest on 50 draws each.
const resamples = 2000

// spread returns the 95 % bootstrap interval of the ratio. Rounds are drawn whole,
// subject with peer, so that what slowed down both at a time does not widen it.
// The draws are the same in every run: equal samples give equal intervals.
func (s sample) spread() interval {
	rnd := rand.New(rand.NewPCG(1, 2))
	n := len(s.subject)
	drawn := sample{make([]float64, n), make([]float64, n)}
	ratios := make([]float64, resamples)
	for i := range ratios {
		for j := range n {
			round := rnd.IntN(n)
			drawn.subject[j], drawn.peer[j] = s.subject[round], s.peer[round]
		}
		ratios[i] = drawn.ratio()
	}
	slices.Sort(ratios)
	return interval{quantile(ratios, 0.025), quantile(ratios, 0.975)}
}

// median returns the median of xs, which is not empty and stays as it is.
func median(xs []float64) float64 {
	sorted := slices.Clone(xs)
	slices.Sort(sorted)
	return quantile(sorted, 0.5)
}

// quantile returns the q-quantile, 0 ≤ q ≤ 1, of sorted, which is not empty.
// Between two values it interpolates.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
