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

// resetAfter is how long a counter keeps its number.
const resetAfter = time.Minute

// A tally is the state of a counter.
type tally struct {
	Number int    `cbor:"number"`
	Alarm  string `cbor:"alarm"` // the event that resets it
}

func init() {
	guest.Serve(&guest.Type{
		Actions: map[string]guest.Handler{
			"add":   guest.Action(add),
			"reset": guest.Action(reset),
		},
	})
}

// main is not called: the host calls the actor.
func main() {}

func add(c *guest.Context, n int) (int, error) {
	t, err := guest.State[tally](c)
	if err != nil {
		return 0, err
	}
	t.Number += n
	if t.Alarm != "" {
		if err := c.Schedule().Cancel(t.Alarm); err != nil {
			return 0, err
		}
	}
	// That the alarm is set lands with the number, or not at all.
	if t.Alarm, err = c.Schedule().After(resetAfter, "reset", nil); err != nil {
		return 0, err
	}
	return t.Number, guest.SetState(c, t)
}

func reset(c *guest.Context, _ struct{}) (struct{}, error) {
	return struct{}{}, guest.SetState(c, tally{})
}
