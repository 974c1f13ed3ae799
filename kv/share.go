package kv

import "sync"

// A Sharer is an optional capability of an Engine: every package that uses the same store in
// this process can meet there. What must be agreed on within a process (which package owns an actor, for instance) is known to all of them at once that way, without a
// read, and without a variable of the whole program.
//
// Only an engine that no other process can have open at the same time may offer it: an
// agreement made here doesn't bind other processes. Such an engine has one Incarnation:
// what its users agreed on would not survive another. A decorator of an engine passes it
// on.
type Sharer interface {
	// Shared returns the same map for the life of the open store. A package uses
	// keys of an unexported type of its own.
	Shared() *sync.Map
}

// Shared returns the map of an engine that is a Sharer, nil for every other one.
func Shared(e Engine) *sync.Map {
	if s, ok := e.(Sharer); ok {
		return s.Shared()
	}
	return nil
}
