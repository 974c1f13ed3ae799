package memkv_test

import (
	"context"
	"fmt"
	"log"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func ExampleNew() {
	ctx := context.Background()
	db := memkv.New()
	err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{
		kv.Set([]byte("b"), []byte("2")),
		kv.Set([]byte("a"), []byte("1")),
	}})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range db.Scan(ctx, kv.Range{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s=%s\n", e.Key, e.Value)
	}
	// Output:
	// a=1
	// b=2
}
