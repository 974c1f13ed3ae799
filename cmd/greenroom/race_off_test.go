//go:build !race

package main

// raceEnabled says whether the race detector runs, which makes all slow.
const raceEnabled = false
