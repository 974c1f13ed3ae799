package testkit

import "testing"

// FewestAllocs returns how many allocations a call of f takes, as testing.AllocsPerRun has it: the least of several averages, since
// what runs beside f in the process allocates too.
func FewestAllocs(f func()) float64 {
	fewest := testing.AllocsPerRun(10, f)
	for range 9 {
		fewest = min(fewest, testing.AllocsPerRun(10, f))
	}
	return fewest
}
