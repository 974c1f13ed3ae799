package pebblekv_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	db, err := pebblekv.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	ctx := context.Background()
	err = db.Commit(ctx, &kv.Commit{
		Checks: []kv.Check{{Key: []byte("greeting"), Absent: true}},
		Ops:    []kv.Op{kv.Set([]byte("greeting"), []byte("hello"))},
	})
	if err != nil {
		log.Fatal(err)
	}
	v, err := db.Get(ctx, []byte("greeting"), nil)
	fmt.Printf("%s %v\n", v, err)
	// Output: hello <nil>
}
