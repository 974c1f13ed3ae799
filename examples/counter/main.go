// Command counter is the smallest program with actors: each counter has a name and a
// number, and the number survives the program.
//
//	go run ./examples/counter STORE NAME [N]
//
// adds N, which is 1 unless it is given, and prints the number. STORE is a folder that is
// made if it isn't there. A counter that was not touched for a minute is reset, by an
// alarm that rings whenever a program has the store open by then.
//
// With -wasm FILE before STORE the counter is the WebAssembly module FILE, which folder
// wasm has the source of.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/wasm"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// resetAfter is how long a counter keeps its number.
const resetAfter = time.Minute

// counter is the type. What is said of it in the documentation of host.Type holds: an
// action is a transaction, and the number is durable before anybody is told.
func counter() *host.Type {
	return &host.Type{
		Name: "counter",
		Actions: map[string]host.Handler{
			"add":   host.Action(add),
			"reset": host.Action(reset),
		},
	}
}

// A tally is the state of a counter.
type tally struct {
	Number int    `cbor:"number"`
	Alarm  string `cbor:"alarm"` // the event that resets it
}

func add(c *host.Context, n int) (int, error) {
	t, err := host.State[tally](c)
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
	return t.Number, host.SetState(c, t)
}

func reset(c *host.Context, _ struct{}) (struct{}, error) {
	return struct{}{}, host.SetState(c, tally{})
}

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "counter:", host.Message(err))
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// errUsage is what is said of arguments that can't be used.
var errUsage = &host.Error{Code: "usage", Message: "usage: counter [-wasm FILE] STORE NAME [N]"}

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	flags := flag.NewFlagSet("counter", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	file := flags.String("wasm", "", "")
	if flags.Parse(args) != nil {
		return errUsage
	}
	n := 1
	switch args = flags.Args(); len(args) {
	case 3:
		if n, err = strconv.Atoi(args[2]); err != nil {
			return errUsage
		}
	case 2:
	default:
		return errUsage
	}
	kind := counter()
	if *file != "" {
		var m *wasm.Module
		if m, err = module(ctx, *file); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Close(ctx)) }()
		kind = m.Type()
	}
	return (&sum{args[0], args[1], n}).do(ctx, out, kind)
}

// module compiles a counter.
func module(ctx context.Context, file string) (*wasm.Module, error) {
	code, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return wasm.Compile(ctx, "counter", code, nil)
}

// A sum is what is to be done: a number for a counter of a store.
type sum struct {
	store, name string
	n           int
}

// do does it with actors of a type, and prints the number.
func (s *sum) do(ctx context.Context, out io.Writer, kind *host.Type) (err error) {
	engine, err := pebblekv.Open(s.store, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	h, err := host.Open(ctx, engine, []*host.Type{kind}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close(ctx)) }()
	total, err := host.Invoke[int](ctx, h, host.Address{Type: "counter", Key: s.name}, "add", s.n)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, total)
	return err
}
