//go:build !race

package vfs

const raceDetector = false

const updateStep = 1
