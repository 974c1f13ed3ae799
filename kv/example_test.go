package kv_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A commit applies whole or not at all, and only while its checks hold: a
// writer that builds on a value it read checks that the value is still there.
func Example() {
	ctx := context.Background()
	var engine kv.Engine = memkv.New()
	defer engine.Close()

	first := &kv.Commit{
		Checks: []kv.Check{{Key: []byte("seat/1"), Absent: true}},
		Ops: []kv.Op{
			kv.Set([]byte("seat/1"), []byte("Ada")),
			kv.Set([]byte("seat/2"), []byte("Grace")),
		},
	}
	if err := engine.Commit(ctx, first); err != nil {
		log.Fatal(err)
	}
	err := engine.Commit(ctx, first) // the seat is taken now
	fmt.Println("conflict:", errors.Is(err, kv.ErrConflict))

	err = engine.Commit(ctx, &kv.Commit{
		Checks: []kv.Check{{Key: []byte("seat/1"), Value: []byte("Ada")}},
		Ops:    []kv.Op{kv.Set([]byte("seat/1"), []byte("Barbara"))},
	})
	if err != nil {
		log.Fatal(err)
	}
	// From the first key that begins with "seat/" to the first one after them.
	for e, err := range engine.Scan(ctx, kv.Range{Start: []byte("seat/"), End: []byte("seat0")}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", e.Key, e.Value)
	}
	// Output:
	// conflict: true
	// seat/1: Barbara
	// seat/2: Grace
}
