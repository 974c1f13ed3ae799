package main

import (
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/examples/chat"
	"github.com/greenroomdb/greenroom/host"
)

// A demoTally is the state of a counter.
type demoTally struct {
	Number int `cbor:"number"`
	Rung   int `cbor:"rung"` // how often "later" came
}

// demoTypes are the types of --demo.
var demoTypes = func() []*host.Type { return []*host.Type{demoCounter(), chat.Room()} }

// demoCounter counts: "add" adds a number and returns the sum, "later" has so many
// milliseconds pass and then an alarm ring, "get" returns the sum and how many rang.
func demoCounter() *host.Type {
	change := func(c *host.Context, fn func(t *demoTally)) (t demoTally, err error) {
		err = greenroom.Mutate(c, func(v *demoTally) error { fn(v); t = *v; return nil })
		return t, err
	}
	ring := host.NewCommand("ring", func(c *host.Context, _ struct{}) error {
		t, err := change(c, func(t *demoTally) { t.Rung++ })
		if err != nil {
			return err
		}
		return c.Broadcast("rung", t.Rung)
	})
	return &host.Type{
		Name: "counter",
		Actions: []host.AnyAction{
			host.NewAction("add", func(c *host.Context, n int) (int, error) {
				t, err := change(c, func(t *demoTally) { t.Number += n })
				if err != nil {
					return 0, err
				}
				return t.Number, c.Broadcast("count", t.Number)
			}),
			host.NewAction("later", func(c *host.Context, ms int64) (string, error) {
				return ring.After(c, time.Duration(max(ms, 0))*time.Millisecond, struct{}{})
			}),
			ring,
			host.NewAction("get", func(c *host.Context, _ struct{}) (map[string]int, error) {
				t, err := greenroom.State[demoTally](c)
				return map[string]int{"number": t.Number, "rung": t.Rung}, err
			}),
		},
	}
}
