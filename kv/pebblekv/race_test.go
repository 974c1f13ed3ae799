//go:build race

package pebblekv

// raceEnabled: the race detector makes sync.Pool drop things at random.
const raceEnabled = true
