package actorstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// open is what every example begins with.
func open(ctx context.Context, name string) (*actorstore.Store, *actorstore.Actor) {
	store, err := actorstore.Open(ctx, memkv.New(), nil)
	if err != nil {
		panic(err)
	}
	actor, err := store.Named(ctx, name, nil)
	if err != nil {
		panic(err)
	}
	return store, actor
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func Example() {
	ctx := context.Background()
	store, err := actorstore.Open(ctx, memkv.New(), nil)
	check(err)
	defer store.Close()
	actor, err := store.Named(ctx, "lobby", nil)
	check(err)
	defer actor.Close()

	user := actor.User()
	check(user.Put(ctx, []byte("greeting"), []byte("hello")))
	value, err := user.Get(ctx, []byte("greeting"), nil)
	check(err)
	fmt.Printf("%s, %d bytes used\n", value, actor.Used())
	// Output: hello, 16 bytes used
}

// A batch lands whole, and memory follows it.
func ExampleActor_Commit() {
	ctx := context.Background()
	store, actor := open(ctx, "lobby")
	defer store.Close()

	var b batch.Batch
	b.Put(actorstore.LayoutGreenroom.AppendQueueMessage(nil, 1), []byte("message"))
	b.Put(actorstore.UserKey([]byte("sent")), []byte("1"))
	b.OnCommit(func() { fmt.Println("landed") })
	b.OnAbort(func(err error) { fmt.Println("did not land:", err) })
	check(actor.Commit(ctx, &b))

	for e, err := range actor.List(ctx, actorstore.ListOptions{}) {
		check(err)
		fmt.Printf("%s = %s\n", actorstore.Describe(e.Key), e.Value)
	}
	// Output:
	// landed
	// user/sent = 1
	// queue/messages/1 = message
}

// A quota is exact: an overwrite is charged the difference.
func ExampleQuotaError() {
	ctx := context.Background()
	store, err := actorstore.Open(ctx, memkv.New(), &actorstore.Options{Limits: batch.Limits{Storage: 100}})
	check(err)
	defer store.Close()
	actor, err := store.Actor(ctx, actorstore.NewID(), nil)
	check(err)

	key := actorstore.UserKey([]byte("k"))
	check(actor.Put(ctx, key, make([]byte, 90)))
	check(actor.Put(ctx, key, make([]byte, 96)))
	err = actor.Put(ctx, key, make([]byte, 97))
	var quota *actorstore.QuotaError
	fmt.Println(errors.As(err, &quota), quota.Used, quota.Wanted, quota.Limit)
	// Output: true 100 101 100
}

// Looking at an actor disturbs no owner.
func ExampleStore_View() {
	ctx := context.Background()
	store, actor := open(ctx, "lobby")
	defer store.Close()
	check(actor.User().Put(ctx, []byte("k"), []byte("before")))

	id, err := store.Lookup(ctx, "lobby")
	check(err)
	view, err := store.View(ctx, id)
	check(err)
	defer view.Close()
	check(actor.User().Put(ctx, []byte("k"), []byte("after")))
	value, err := view.User().Get(ctx, []byte("k"), nil)
	check(err)
	fmt.Printf("%s, commit %d\n", value, view.Seq())
	// Output: before, commit 1
}

func ExampleStore_Actors() {
	ctx := context.Background()
	store, actor := open(ctx, "lobby")
	defer store.Close()
	check(actor.User().Put(ctx, []byte("k"), []byte("v")))

	for info, err := range store.Actors(ctx, nil) {
		check(err)
		fmt.Println(info.ID, info.Name, info.Used, info.Seq)
	}
	// Output: hodf9r0nebitxihti137r3va5c0000 lobby 5 1
}

// Actors by name, a few at a time: each listing goes on behind the last actor of the one
// before.
func ExampleActorsOptions() {
	ctx := context.Background()
	store, actor := open(ctx, "lobby")
	defer store.Close()
	check(actor.User().Put(ctx, []byte("k"), []byte("v")))
	for _, name := range []string{"room:1", "room:2", "room:3"} {
		room, err := store.Named(ctx, name, nil)
		check(err)
		check(room.User().Put(ctx, []byte("k"), []byte("v")))
		check(room.Close())
	}

	opts := actorstore.ActorsOptions{Prefix: "room:", Limit: 2}
	for range 2 {
		fmt.Println("page")
		for info, err := range store.Actors(ctx, &opts) {
			check(err)
			fmt.Println(info.Name, info.Used)
			opts.After = info.Position
		}
	}
	// Output:
	// page
	// room:1 5
	// room:2 5
	// page
	// room:3 5
}

func ExampleActor_Snapshot() {
	ctx := context.Background()
	store, actor := open(ctx, "lobby")
	defer store.Close()
	key := actorstore.UserKey([]byte("k"))
	check(actor.Put(ctx, key, []byte("1")))
	snap, err := actor.Snapshot(ctx)
	check(err)
	defer snap.Close()
	check(actor.Delete(ctx, key))
	value, err := snap.Get(ctx, key, nil)
	check(err)
	fmt.Printf("%s\n", value)
	// Output: 1
}

func ExampleDescribe() {
	fmt.Println(actorstore.Describe(actorstore.LayoutGreenroom.AppendFileChunk(nil, actorstore.FileMain, 17)))
	fmt.Println(actorstore.Describe([]byte{0x07, 0x15, 0x02, 0x14, 0x05, 0x15, 0x02, 0x15, 0x05, 0x00}))
	fmt.Println(actorstore.Describe([]byte{0xaa, 0xbb}))
	// Output:
	// sqlite/chunks/main/17
	// workflow/history/0/2~5
	// unknown/aabb
}

func ExampleParseID() {
	id := actorstore.IDFromName("lobby")
	again, err := actorstore.ParseID(id.String())
	fmt.Println(id, again == id, err)
	// Output: hodf9r0nebitxihti137r3va5c0000 true <nil>
}

// A fork is a new actor with the keys that a snapshot shows.
func ExampleStore_Fork() {
	ctx := context.Background()
	store, actor := open(ctx, "lobby")
	defer store.Close()
	check(actor.User().Put(ctx, []byte("greeting"), []byte("hello")))

	view, err := store.View(ctx, actor.ID())
	check(err)
	id, err := store.Fork(ctx, view.Snapshot, &actorstore.ForkOptions{Name: "rehearsal"})
	check(errors.Join(err, view.Close()))

	check(actor.User().Put(ctx, []byte("greeting"), []byte("good evening")))
	copied, err := store.View(ctx, id)
	check(err)
	defer copied.Close()
	value, err := copied.User().Get(ctx, []byte("greeting"), nil)
	check(err)
	fmt.Printf("%s: %s\n", copied.Info().Name, value)
	// Output: rehearsal: hello
}
