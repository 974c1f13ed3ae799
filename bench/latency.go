package main

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

// A stopwatch hands out operations and takes the time of each. A worker asks for the next
// operation when it has done the one before, so that one look at the clock for each is all
// that it costs.
type stopwatch struct {
	next atomic.Int64
	// took has a place for each operation.
	took []time.Duration
}

// more returns what a worker asks whether there is more to do. Each worker has its own.
func (w *stopwatch) more() func() bool {
	at, began := -1, time.Time{}
	return func() bool {
		now := time.Now()
		if at >= 0 && at < len(w.took) {
			w.took[at] = now.Sub(began)
		}
		at, began = int(w.next.Add(1)-1), now
		return at < len(w.took)
	}
}

// latencies count how many operations took how long, in nanoseconds of which the first eight
// bits are kept: a quantile is right to within a part in 128.
type latencies map[uint64]int

// add counts operations.
func (l *latencies) add(took []time.Duration) {
	if *l == nil {
		*l = latencies{}
	}
	for _, d := range took {
		rest := max(0, bits.Len64(uint64(d))-8)
		(*l)[uint64(d)>>rest<<rest]++
	}
}

// quantile returns the q-quantile in seconds: the least time within which that part of the
// operations was done. It is not a number if there were none.
func (l latencies) quantile(q float64) float64 {
	all, within := 0, 0
	for _, n := range l {
		all += n
	}
	for _, d := range slices.Sorted(maps.Keys(l)) {
		if within += l[d]; float64(within) >= q*float64(all) {
			return time.Duration(d).Seconds()
		}
	}
	return math.NaN()
}
