//go:build !race

package actorstore

const raceEnabled = false
