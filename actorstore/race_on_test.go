//go:build race

package actorstore

// raceEnabled: the race detector makes sync.Pool forget things.
const raceEnabled = true
