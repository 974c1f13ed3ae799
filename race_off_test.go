//go:build !race

package greenroom_test

const raceDetector = false
