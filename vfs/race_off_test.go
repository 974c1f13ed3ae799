//go:build !race

package vfs

const raceDetector = false
