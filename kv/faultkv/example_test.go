package faultkv_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func ExampleNew() {
	ctx := context.Background()
	eng := faultkv.New(memkv.New())
	// Every commit applies, and none is known to have.
	eng.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.AfterCommit {
			return kv.ErrUnknownOutcome
		}
		return nil
	})
	err := eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte("k"), []byte("v"))}})
	fmt.Println(errors.Is(err, kv.ErrUnknownOutcome))
	v, err := eng.Get(ctx, []byte("k"), nil)
	fmt.Printf("%s %v, after %d get and %d commit\n", v, err, eng.Counts().Gets, eng.Counts().Commits)
	// Output:
	// true
	// v <nil>, after 1 get and 1 commit
}
