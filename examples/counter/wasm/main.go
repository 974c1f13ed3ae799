// Command wasm is the actor of examples/counter once more, as a WebAssembly module:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o counter.wasm ./examples/counter/wasm
//	go run ./cmd/greenroom host STORE --wasm counter=counter.wasm
//
// Both understand what the other has stored. Built for another platform it does nothing.
package main

import "github.com/greenroomdb/greenroom/host/guest"

var add = guest.NewAction("add", func(c *guest.Context, n int) (total int, err error) {
	err = guest.Mutate(c, func(number *int) error { *number += n; total = *number; return nil })
	return total, err
})

func init() { guest.Serve(&guest.Type{Actions: []guest.AnyAction{add}}) }

// main is not called: the host calls the actor.
func main() {}
