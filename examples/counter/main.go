// Command counter is the smallest program with actors: each counter has a name and a
// number, and the number survives the program.
//
//	go run ./examples/counter STORE NAME [N]
//
// adds N, which is 1 unless it is given, and prints the number. STORE is a folder that is
// made if it isn't there. A counter that was not touched for a minute is reset, by an
// alarm that rings whenever a program has the store open by then.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A tally is the state of a counter.
type tally struct {
	Number int    `cbor:"number"`
	Alarm  string `cbor:"alarm"` // the event that resets it
}

// An action is a transaction: that the alarm is set lands with the number, or not at all,
// and both are durable before the caller is told.
var add = host.NewAction("add", func(c *host.Context, n int) (int, error) {
	t, err := greenroom.State[tally](c)
	if err == nil {
		err = c.Cancel(t.Alarm)
	}
	if err != nil {
		return 0, err
	}
	t.Number += n
	if t.Alarm, err = reset.After(c, time.Minute, struct{}{}); err != nil {
		return 0, err
	}
	return t.Number, greenroom.SetState(c, t)
})

var reset = host.NewCommand("reset", func(c *host.Context, _ struct{}) error { return greenroom.SetState(c, tally{}) })

var counter = &host.Type{Name: "counter", Actions: []host.AnyAction{add, reset}}

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "counter:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	n := 1
	if len(args) == 3 {
		n, err = strconv.Atoi(args[2])
	}
	if err != nil || len(args) < 2 || len(args) > 3 {
		return errors.New("usage: counter STORE NAME [N]")
	}
	engine, err := pebblekv.Open(args[0], nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	h, err := host.Open(ctx, engine, []*host.Type{counter}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close(ctx)) }()
	total, err := add.Call(ctx, h, args[1], n)
	if err == nil {
		_, err = fmt.Fprintln(out, total)
	}
	return err
}
