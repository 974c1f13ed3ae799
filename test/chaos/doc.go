// Package chaos tests three hosts, processes of their own, on one PostgreSQL server while
// clients call their actors over HTTP and everything between and below them breaks: hosts
// are killed and stopped, connections are cut, fall silent and are terminated, and the
// server crashes. What the clients were told is then held against a model with a checker of
// linearizability: there must be an order of all calls, each at a moment between its
// beginning and its end, in which one list of increments gives the same answers. Some
// actors are called in turns of two as well, each of which must be one step in the order of
// all calls of these actors.
//
//	go test .                                    20 seconds of it
//	go test . -for 2m -seed 7 -kinds kill,stop   what is given
//
// It has no code of its own that anybody could import.
package chaos
