//go:build race

package workflow

// raceDetector says that everything takes ten times as long.
const raceDetector = true
