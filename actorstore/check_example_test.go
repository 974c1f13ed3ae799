package actorstore_test

import (
	"context"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A check goes through everything that is stored and says what is wrong.
func ExampleStore_Check() {
	ctx := context.Background()
	store, actor := open(ctx, "lobby")
	defer store.Close()
	check(actor.User().Put(ctx, []byte("greeting"), []byte("hello")))
	check(actor.Put(ctx, []byte{0xaa, 0xbb}, []byte("whose is this?")))

	for f, err := range store.Check(ctx) {
		check(err)
		fmt.Println(f)
	}
	// Output:
	// actor hodf9r0nebitxihti137r3va5c0000: unknown/aabb: no namespace has a key of this form
}

// One actor can be checked even if nothing else can be done with it.
func ExampleStore_CheckActor() {
	ctx := context.Background()
	store, actor := open(ctx, "lobby")
	defer store.Close()
	check(actor.Put(ctx, []byte{0xaa, 0xbb}, nil))

	faults := 0
	for f, err := range store.CheckActor(ctx, actor.ID()) {
		check(err)
		if !f.Harmless {
			faults++
			fmt.Println(f.Where)
		}
	}
	fmt.Println(faults, "faults")
	// Output:
	// unknown/aabb
	// 1 faults
}

func ExampleView_Check() {
	ctx := context.Background()
	store, actor := open(ctx, "lobby")
	defer store.Close()
	check(actor.User().Put(ctx, []byte("greeting"), []byte("hello")))

	view, err := store.View(ctx, actor.ID())
	check(err)
	defer view.Close()
	for f, err := range view.Check(ctx) {
		check(err)
		fmt.Println(f)
	}
	fmt.Println("checked")
	// Output: checked
}

// A survey lists what can be read, and says what can't.
func ExampleSnapshot_Survey() {
	ctx := context.Background()
	store, actor := open(ctx, "lobby")
	defer store.Close()
	check(actor.User().Put(ctx, []byte("greeting"), []byte("hello")))

	snap, err := actor.Snapshot(ctx)
	check(err)
	defer snap.Close()
	for e, err := range snap.Survey(ctx, nil, nil) {
		if e.Key == nil {
			check(err)
		}
		fmt.Println(actorstore.Describe(e.Key), e.Size, err)
	}
	// Output: user/greeting 5 <nil>
}
