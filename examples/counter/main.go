// Command counter is the smallest program with actors: each counter has a name and a
// number, which outlives the program.
//
//	go run ./examples/counter STORE NAME N
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

var add = host.NewAction("add", func(c *host.Context, n int) (total int, err error) {
	err = greenroom.Mutate(c, func(number *int) error { *number += n; total = *number; return nil })
	return total, err // which the caller gets when the new number is on the disk
})

var counter = &host.Type{Name: "counter", Actions: []host.AnyAction{add}}

func main() {
	ctx := context.Background()
	engine := must(pebblekv.Open(os.Args[1], nil))
	defer engine.Close()
	h := must(host.Open(ctx, engine, []*host.Type{counter}, nil))
	defer h.Close(ctx) // what was answered is on the disk already
	fmt.Println(must(add.Call(ctx, h, os.Args[2], must(strconv.Atoi(os.Args[3])))))
}

func must[T any](v T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, "counter:", err)
		os.Exit(1)
	}
	return v
}
