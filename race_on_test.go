//go:build race

package greenroom_test

// raceDetector says that pools drop what they are given at random, so that
// allocations can't be counted.
const raceDetector = true
