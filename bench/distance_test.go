package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestDistance: an operation takes as many round trips as it makes calls, and nothing else,
// by a clock on which computing takes no time.
func TestDistance(t *testing.T) {
	o := tiny(t, "-distance", "5ms")
	o.sizes.actors = 1
	o.sizes.scan = 20_000                           // of fewer rows all pages are read ahead
	for name, trips := range map[string][2]float64{ // at least and at most
		"sqlite/insert-1": {1, 1}, "sqlite/point": {0, 0}, "sqlite/open-cold": {2, 12}, "kv/put": {1, 1},
		"queue/cycle": {cycleCommits, cycleCommits}, "workflow/step": {stepCommits, stepCommits},
	} {
		t.Run(strings.ReplaceAll(name, "/", " "), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { // where leases don't need renewal
				staged(t, site{dir: dir, on: engineMem, sizes: o.sizes, trip: o.distance}, func(s *stand) {
					workloadOf(name).subject()(s)
					s.measured(8) // the first ones find nothing in any cache
					const n = 4
					of := s.measured(n)
					calls := of.reads() + of.counts.Snapshots + of.counts.Commits + of.counts.Syncs + of.counts.Attempts
					if each := float64(calls) / n; each < trips[0] || each > trips[1] || of.took != time.Duration(calls)*o.distance {
						t.Errorf("%v calls take %v, want %v of %v", each, of.took/n, trips, o.distance)
					}
				})
			})
		})
	}
}
