package workflow

import (
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// SideEffect records what fn returns, which later runs find again: for what is not the
// same twice and has no effect, such as a look at something in memory. It takes no commit
// of its own, and is recorded before anything that depends on it can leave the process. fn
// must not fail; a Step may.
func SideEffect[T any](c *Context, name string, fn func() T) (v T) {
	p := c.enter(name)
	defer c.end()
	codec := c.r.wf.opts.Codec
	k, _ := kind[history.Step](p)
	if !p.found || p.status().Status != history.StatusCompleted {
		if c.r.undoing != nil {
			c.stopCollecting()
		}
		k.Output = encoded(p, codec, "value", fn())
		p.must(p.record(k, p.completed(), withNext))
		c.r.draw()
	}
	p.decode(codec.Decode(k.Output, &v), "value", v)
	return v
}

// Now returns the time of day, to the millisecond: the same in every run.
func (c *Context) Now(name string) time.Time {
	return time.UnixMilli(SideEffect(c, name, func() int64 { return c.r.wf.clock.Now().UnixMilli() }))
}

// UUID returns a random UUID of version 4: the same in every run.
func (c *Context) UUID(name string) string {
	return SideEffect(c, name, uuid.NewString)
}

// Rand returns a source of random numbers that yields the same ones in every run.
func (c *Context) Rand(name string) *rand.Rand {
	seed := SideEffect(c, name, func() [4]uint32 {
		return [4]uint32{rand.Uint32(), rand.Uint32(), rand.Uint32(), rand.Uint32()}
	})
	return rand.New(rand.NewPCG(uint64(seed[0])<<32|uint64(seed[1]), uint64(seed[2])<<32|uint64(seed[3])))
}

// ContinueAsNew ends the run and begins the workflow anew, with another input and nothing
// in its history, by one commit: for a workflow without an end. Messages that are not
// completed become visible again, and nothing of what was done can be undone any more. It
// doesn't return.
func ContinueAsNew[In any](c *Context, in In) {
	c.leaveIfOver()
	w := c.r.wf
	if !w.takes(in) {
		c.misuse("ContinueAsNew", "the workflow doesn't take an input of this type")
	}
	data, err := w.opts.Codec.Encode(cbor.Typed(in))
	if err != nil {
		c.misuse("ContinueAsNew", "the input can't be encoded: "+err.Error())
	}
	if c.r.undoing != nil {
		c.stopCollecting()
	}
	c.r.halt(renewal{data})
	leave()
}
