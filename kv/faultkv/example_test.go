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
	// The next commit is applied, and the acknowledgement is lost.
	eng.Fail(faultkv.Rule{Point: faultkv.AfterApply, Err: kv.ErrUnknownOutcome})
	err := eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte("k"), []byte("v"))}})
	fmt.Println(errors.Is(err, kv.ErrUnknownOutcome))
	v, err := eng.Get(ctx, []byte("k"), nil)
	fmt.Printf("%s %v, after %d get and %d commit\n", v, err, eng.Counts().Gets, eng.Counts().Commits)
	// Output:
	// true
	// v <nil>, after 1 get and 1 commit
}

func ExampleEngine_Fail() {
	ctx := context.Background()
	eng := faultkv.New(memkv.New())
	broken := errors.New("the disk is broken")
	// From the second one on, every commit that touches the accounts fails.
	f := eng.Fail(faultkv.Rule{
		Point: faultkv.BeforeCommit,
		Match: faultkv.Prefix([]byte("account/")),
		Skip:  1,
		Times: faultkv.Forever,
		Err:   broken,
	})
	for _, key := range []string{"account/ada", "log/1", "account/ben"} {
		fmt.Println(key, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte(key), []byte("v"))}}))
	}
	fmt.Println(f.Hits(), "of", f.Seen())
	f.Remove()
	// Output:
	// account/ada <nil>
	// log/1 <nil>
	// account/ben the disk is broken
	// 1 of 2
}

func ExampleEngine_Pause() {
	ctx := context.Background()
	eng := faultkv.New(memkv.New())
	set := func(value string) error {
		return eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte("k"), []byte(value))}})
	}
	p := eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
	done := make(chan error)
	go func() { done <- set("first") }()
	<-p.Reached()
	fmt.Println(set("second"))
	p.Release()
	fmt.Println(<-done)
	v, err := eng.Get(ctx, []byte("k"), nil)
	fmt.Printf("%s %v\n", v, err)
	// Output:
	// <nil>
	// <nil>
	// first <nil>
}

func ExampleEngine_Tear() {
	ctx := context.Background()
	eng := faultkv.New(memkv.New())
	eng.Tear(2)
	for _, key := range []string{"part 1", "part 2", "part 3"} {
		fmt.Println(key, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte(key), nil)}}))
	}
	eng.Heal()
	for e, err := range eng.Scan(ctx, kv.Range{}) {
		fmt.Printf("%s %v\n", e.Key, err)
	}
	// Output:
	// part 1 <nil>
	// part 2 <nil>
	// part 3 faultkv: torn
	// part 1 <nil>
	// part 2 <nil>
}
