package main

import (
	"math"

	"github.com/aclements/go-moremath/stats"
)

// A sample is what the rounds of one line measured: throughputs in operations
// per second, subject[i] and peer[i] being of the same round. The two are equally
// long and not empty.
type sample struct {
	subject, peer []float64
}

// ratio is the median of the rounds' ratios, subject over peer, with its 95 % interval: above
// 1 the subject is faster. What slows down both sides of a round at a time doesn't count. The
// interval is 0 if there were too few rounds for one.
func (s sample) ratio() (ratio, low, high float64) {
	each := make([]float64, len(s.subject))
	for i := range each {
		each[i] = s.subject[i] / s.peer[i]
	}
	ratio, low, high = stats.QuantileCI(len(each), 0.5, 0.95).SampleCI(stats.Sample{Xs: each})
	if math.IsInf(low, 0) || math.IsInf(high, 0) {
		return ratio, 0, 0
	}
	return ratio, low, high
}

// median returns the median of xs.
func median(xs []float64) float64 { return stats.Sample{Xs: xs}.Quantile(0.5) }
