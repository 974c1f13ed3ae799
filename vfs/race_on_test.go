//go:build race

package vfs

// raceDetector says that pools drop what they are given at random, so that
// allocations can't be counted.
const raceDetector = true
