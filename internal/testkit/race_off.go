//go:build !race

package testkit

// Race reports whether the race detector watches. Everything takes many times as long then, and
// pools drop what they are given at random, so that allocations can't be counted.
const Race = false
