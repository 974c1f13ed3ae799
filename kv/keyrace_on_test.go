//go:build race

package kv_test

// raceEnabled: the race detector makes sync.Pool forget things.
const raceEnabled = true
