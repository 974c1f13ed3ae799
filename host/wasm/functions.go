package wasm

import (
	"context"
	"io"
	"math"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/abi"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

// Every function of the host but three takes the place and the length of one value in the
// module's memory, and returns the length of what take will give: a result, or with a
// minus a fault. So the host never writes where it wasn't told to, and never calls the
// module from within a call.

// A function is one of these.
type function struct {
	name string
	free bool // may be called without a turn
	keep bool // what it is given is kept until the turn lands
	body func(c *call, arg []byte) (any, error)
}

// keepCost is what a call that keeps something counts beside its argument.
const keepCost = 512

// functions are all of them. docs/wasm.md has the same list.
var functions = slices.Concat([]function{
	{name: "reply", free: true, body: one(setReply)},
	{name: "fail", free: true, body: with(setFault)},
	{name: "log", free: true, body: setLog},
	{name: "self", body: nothing(self)},
	{name: "input", body: nothing(input)},
	{name: "destroy", body: nothing(destroy)},
	{name: "state_get", body: nothing(stateGet)},
	{name: "state_set", keep: true, body: one(stateSet)},
	{name: "workflow_start", keep: true, body: one(workflowStart)},
	{name: "workflow_start_again", keep: true, body: one(workflowStartAgain)},
	{name: "workflow_status", body: nothing(workflowStatus)},
}, keyFunctions, sqlFunctions, queueFunctions, scheduleFunctions, connFunctions)

// with makes a body of a function that takes an In.
func with[In any](fn func(c *call, in *In) (any, error)) func(*call, []byte) (any, error) {
	return func(c *call, arg []byte) (any, error) {
		var in In
		if err := abi.Unmarshal(arg, &in); err != nil {
			return nil, badArgument(err)
		}
		return fn(c, &in)
	}
}

// one makes a body of a function that takes any value, which is its own.
func one(fn func(c *call, v host.Raw) (any, error)) func(*call, []byte) (any, error) {
	return func(c *call, arg []byte) (any, error) {
		if len(arg) == 0 {
			return fn(c, nil)
		}
		if err := cbor.Valid(arg); err != nil {
			return nil, badArgument(err)
		}
		return fn(c, slices.Clone(arg))
	}
}

// nothing makes a body of a function that takes nothing.
func nothing(fn func(c *call) (any, error)) func(*call, []byte) (any, error) {
	return func(c *call, _ []byte) (any, error) { return fn(c) }
}

// hostModule has all that a module can import beside WASI.
func hostModule(r wazero.Runtime) wazero.HostModuleBuilder {
	i32, i64 := api.ValueTypeI32, api.ValueTypeI64
	place := []api.ValueType{i32, i32}
	b := r.NewHostModuleBuilder(abi.Module)
	for _, f := range functions {
		b.NewFunctionBuilder().WithGoModuleFunction(f.export(), place, []api.ValueType{i32}).Export(f.name)
	}
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(take), place, []api.ValueType{i32}).Export("take")
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(random), place, []api.ValueType{i32}).Export("random")
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(now), nil, []api.ValueType{i64}).Export("now")
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(tick), nil, nil).Export(tickName)
	return b
}

// tick ends a call whose time is over: see counter. What it panics with is what the call
// returns.
func tick(ctx context.Context, _ api.Module, _ []uint64) {
	if err := ctx.Err(); err != nil {
		panic(err)
	}
}

// timed ends a call whose time is over at every function of the host, those of WASI
// included: one may take as long as a million rounds, and counts as one.
type timed struct{}

// NewFunctionListener implements experimental.FunctionListenerFactory.
func (timed) NewFunctionListener(api.FunctionDefinition) experimental.FunctionListener {
	return experimental.FunctionListenerFunc(
		func(ctx context.Context, _ api.Module, _ api.FunctionDefinition, _ []uint64, _ experimental.StackIterator) {
			tick(ctx, nil, nil)
		})
}

// callOf returns the call in which the module calls the host. Whatever calls a module
// does so in one.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// export is f as the runtime calls it.
func (f *function) export() api.GoModuleFunc {
	return func(ctx context.Context, guest api.Module, stack []uint64) {
		c := callOf(ctx)
		result, err := c.invoke(f, guest.Memory(), api.DecodeU32(stack[0]), api.DecodeU32(stack[1]))
		if err == nil && len(result) > c.module.opts.MaxBytes {
			err = tooLarge("the result", c.module.opts.MaxBytes)
		}
		if err == nil {
			c.pending = result
			stack[0] = api.EncodeI32(int32(len(result)))
			return
		}
		c.last = err
		c.pending = c.encodeFault(err)
		stack[0] = api.EncodeI32(-int32(len(c.pending)))
	}
}

// encodeFault returns an error as the module gets it.
func (c *call) encodeFault(err error) []byte {
	b, err := abi.Encode(faultOf(err))
	if err != nil {
		panic("wasm: a fault can't be encoded: " + err.Error()) // two texts that are UTF-8
	}
	return b
}

// invoke calls f with what the module has at a place in its memory.
func (c *call) invoke(f *function, memory api.Memory, ptr, size uint32) ([]byte, error) {
	c.pending = nil
	switch {
	case c.host == nil && !f.free:
		return nil, errNoTurn
	case uint64(size) > uint64(c.module.opts.MaxBytes):
		return nil, tooLarge("the argument", c.module.opts.MaxBytes)
	}
	arg, ok := memory.Read(ptr, size)
	if !ok {
		return nil, errPointer
	}
	if f.keep {
		if c.spent += len(arg) + keepCost; c.spent > c.module.opts.TurnBytes {
			c.spent = math.MaxInt / 2 // for good: what comes next could be small
			return nil, errBudget
		}
		c.wrote = true
	}
	v, err := f.body(c, arg)
	if err != nil || v == nil {
		return nil, err
	}
	return abi.Marshal(v)
}

// take copies what the last call of a function has given to a place in the module's
// memory. It returns the length, or -1 if that isn't the one asked for, or the place not
// in the memory.
func take(ctx context.Context, guest api.Module, stack []uint64) {
	c, ptr, size := callOf(ctx), api.DecodeU32(stack[0]), api.DecodeU32(stack[1])
	if uint64(size) != uint64(len(c.pending)) || !guest.Memory().Write(ptr, c.pending) {
		stack[0] = api.EncodeI32(-1)
		return
	}
	c.pending = nil
	stack[0] = api.EncodeI32(int32(size))
}

// random fills a place in the module's memory, and returns the length, or -1.
func random(ctx context.Context, guest api.Module, stack []uint64) {
	c := callOf(ctx)
	size := api.DecodeU32(stack[1])
	to, ok := guest.Memory().Read(api.DecodeU32(stack[0]), size)
	if ok && uint64(size) <= uint64(c.module.opts.MaxBytes) {
		if _, err := io.ReadFull(c.random(), to); err == nil {
			stack[0] = api.EncodeI32(int32(size))
			return
		}
	}
	stack[0] = api.EncodeI32(-1)
}

// now is the time of the turn, in milliseconds.
func now(ctx context.Context, _ api.Module, stack []uint64) {
	stack[0] = api.EncodeI64(callOf(ctx).now.UnixMilli())
}

func setReply(c *call, v host.Raw) (any, error) {
	c.reply = v
	return nil, nil
}

func setFault(c *call, f *abi.Fault) (any, error) {
	c.fault = f
	return nil, nil
}

// setLog silently drops a line that doesn't fit.
func setLog(c *call, arg []byte) (any, error) {
	return with(func(c *call, r *abi.Record) (any, error) {
		c.logs(r, len(arg))
		return nil, nil
	})(c, arg)
}

func self(c *call) (any, error) {
	a := c.host.Address()
	return abi.Self{Type: a.Type, Key: a.Key, ID: c.host.ID().String()}, nil
}

func input(c *call) (any, error) {
	var v host.Raw
	err := c.host.Input(&v)
	return abi.Raw(v), err
}

// destroy refuses a turn that would destroy an actor before it did anything: the next client
// would create it again, and again.
func destroy(c *call) (any, error) {
	if c.kind == abi.KindCreate || c.kind == abi.KindWake {
		return nil, errTooEarly
	}
	return nil, c.host.Destroy()
}

func stateGet(c *call) (any, error) {
	v, err := c.host.RawState()
	return abi.Raw(v), err
}

func stateSet(c *call, v host.Raw) (any, error) { return nil, c.host.SetRawState(v) }

func workflowStart(c *call, v host.Raw) (any, error) { return nil, c.host.StartWorkflow(v) }

func workflowStartAgain(c *call, v host.Raw) (any, error) { return nil, c.host.StartWorkflowAgain(v) }

func workflowStatus(c *call) (any, error) {
	w, err := c.host.Workflow()
	if err != nil {
		return nil, err
	}
	s := w.Status()
	status := abi.Workflow{State: s.State.String()}
	if s.Failure != nil {
		status.Failure = &abi.Fault{Code: s.Failure.Code, Message: clip(s.Failure.Message, maxText)}
	}
	return status, nil
}
