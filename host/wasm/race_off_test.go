//go:build !race

package wasm

// raced says that the race detector is on, which makes the compiler ten times slower.
const raced = false
