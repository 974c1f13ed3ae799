//go:build !race

package kv_test

// raceEnabled: see the file for the race detector.
const raceEnabled = false
