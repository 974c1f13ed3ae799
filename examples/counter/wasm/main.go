// Command wasm is the actor of examples/counter once more, as a WebAssembly module:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o counter.wasm ./examples/counter/wasm
//	go run ./cmd/greenroom host STORE --wasm counter=counter.wasm
//
// Both understand what the other has stored. Built for another platform it does nothing.
package main

import (
	"time"

	"github.com/greenroomdb/greenroom/host/guest"
)

// A tally is the state of a counter.
type tally struct {
	Number int    `cbor:"number"`
	Alarm  string `cbor:"alarm"` // the event that resets it
}

var add = guest.NewAction("add", func(c *guest.Context, n int) (int, error) {
	t, err := guest.State[tally](c)
	if err == nil {
		err = c.Schedule().Cancel(t.Alarm)
	}
	if err != nil {
		return 0, err
	}
	t.Number += n
	if t.Alarm, err = reset.After(c, time.Minute, struct{}{}); err != nil {
		return 0, err
	}
	return t.Number, guest.SetState(c, t)
})

var reset = guest.NewCommand("reset", func(c *guest.Context, _ struct{}) error { return guest.SetState(c, tally{}) })

func init() { guest.Serve(&guest.Type{Actions: []guest.AnyAction{add, reset}}) }

// main is not called: the host calls the actor.
func main() {}
