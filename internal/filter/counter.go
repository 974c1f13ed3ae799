package filter

import (
	"context"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// A counter ends an evaluation that costs too much, or whose context has ended. It counts
// itself, because the interpreter's tracker of costs searches all that it has counted at each
// step: twice the turns of a loop take it four times as long, 40,000 of them 5 seconds.
type counter struct {
	ctx   context.Context
	left  uint64
	until int // so many times spend is called before it looks at ctx
}

// A frame is where an evaluation is.
type frame = interpreter.ExecutionFrame

// counterName is the name under which the variables of an evaluation have its counter. No
// identifier of CEL begins like this.
const counterName = "@counter"

func counterOf(f *frame) *counter {
	c, _ := f.ResolveName(counterName)
	return c.(*counter)
}

// spend takes from what is left.
func (c *counter) spend(steps uint64) {
	if c.left < steps {
		panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: ErrTooCostly.Error()})
	}
	c.left -= steps
	if c.until--; c.until <= 0 {
		c.until = stepsPerLook
		if c.ctx.Err() != nil {
			panic(interpreter.EvalCancelledError{Cause: interpreter.ContextCancelled, Message: "filter: canceled"})
		}
	}
}

// stepsPerLook is how many steps an evaluation takes between two looks at its context.
const stepsPerLook = 64

// textPerStep is how many bytes of a text cost as much as one step.
const textPerStep = 10

func textSize(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	}
	return 0
}

// equal is CEL's ==: values of different types differ, except numbers, and NaN from itself.
func (c *counter) equal(a, b ref.Val) bool {
	switch a := a.(type) {
	case traits.Lister:
		b, ok := b.(traits.Lister)
		return ok && c.equalLists(a, b)
	case mapper:
		b, ok := b.(mapper)
		return ok && c.equalMaps(a, b)
	}
	if a.Type() == types.NullType || b.Type() == types.NullType {
		return a.Type() == b.Type()
	}
	return a.Equal(b) == types.True
}

func (c *counter) equalLists(a, b traits.Lister) bool {
	n := a.Size().(types.Int)
	if b.Size() != n {
		return false
	}
	for i := types.Int(0); i < n; i++ {
		x, y := a.Get(i), b.Get(i)
		c.spend(1 + min(textSize(x), textSize(y))/textPerStep)
		if !c.equal(x, y) {
			return false
		}
	}
	return true
}

// equalMaps counts a little for each member that field may have to look at.
func (c *counter) equalMaps(a, b mapper) bool {
	n := a.length()
	if b.length() != n {
		return false
	}
	for _, k := range a.keys() {
		key := adapter{}.NativeToValue(k)
		v, _ := a.field(key)
		w, ok := b.field(key)
		x, y := adapter{}.NativeToValue(v), adapter{}.NativeToValue(w)
		c.spend(1 + uint64(n)/8 + min(textSize(x), textSize(y))/textPerStep)
		if !ok || !c.equal(x, y) {
			return false
		}
	}
	return true
}

// in is CEL's operator of that name: an element of a list, or a key of a map.
func (c *counter) in(a, b ref.Val) ref.Val {
	switch b := b.(type) {
	case mapper:
		_, ok := b.field(a)
		return types.Bool(ok)
	case traits.Lister:
		for i, n := types.Int(0), b.Size().(types.Int); i < n; i++ {
			c.spend(1)
			if c.equal(a, b.Get(i)) {
				return types.True
			}
		}
		return types.False
	}
	return types.NewErr("no such overload: in %s", b.Type().TypeName())
}
