package conn_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// check ends the program: examples have no other use for errors.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// open returns an actor of a new store.
func open(ctx context.Context) (*actorstore.Store, *actorstore.Actor) {
	store, err := actorstore.Open(ctx, memkv.New(), nil)
	check(err)
	actor, err := store.Named(ctx, "lobby", nil)
	check(err)
	return store, actor
}

// quiet keeps what is logged off the examples.
var quiet = slog.New(slog.DiscardHandler)

// create makes a connection.
func create(ctx context.Context, actor *actorstore.Actor, set *conn.Set) *conn.Conn {
	var b batch.Batch
	c, err := set.In(&b).Create(lobby)
	check(err)
	check(actor.Commit(ctx, &b))
	return c
}

var lobby = conn.Info{Gateway: conn.GatewayID{1, 2, 3, 4}, Request: conn.RequestID{0, 0, 0, 7}, Path: "/connect"}

// A connection outlives the actor's stay in memory.
func ExampleOpen() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()

	set, err := conn.Open(ctx, actor, nil)
	check(err)
	var b batch.Batch
	c, err := set.In(&b).Create(lobby)
	check(err)
	check(set.In(&b).Subscribe(c, "tick"))
	check(actor.Commit(ctx, &b))
	check(set.Close(ctx)) // the actor sleeps; the client stays with its gateway

	set, err = conn.Open(ctx, actor, nil)
	check(err)
	defer set.Close(ctx)
	for _, c := range set.Subscribers(nil, "tick") {
		fmt.Println(c.Gateway(), c.Request(), c.Path())
	}
	// Output: 01020304 00000007 /connect
}

// When a client is there again its connection gets a new transport, and is otherwise the
// one that it was.
func ExampleSet_Find() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	set, err := conn.Open(ctx, actor, nil)
	check(err)
	defer set.Close(ctx)
	create(ctx, actor, set)

	c, ok := set.Find(lobby.Gateway, lobby.Request)
	fmt.Println(ok)
	detach, err := c.Attach("a websocket")
	check(err)
	fmt.Println(c.Transport())
	detach()
	fmt.Println(c.Transport())
	// Output:
	// true
	// a websocket
	// <nil>
}

// What the actor keeps about a connection is any value of Go, and lands with what else the
// batch does.
func ExampleTx_SetState() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	set, err := conn.Open(ctx, actor, nil)
	check(err)
	defer set.Close(ctx)
	c := create(ctx, actor, set)

	type state struct {
		Name string `cbor:"name"`
		Seen int    `cbor:"seen"`
	}
	value, err := conn.Encode(state{Name: "ann", Seen: 3})
	check(err)
	var b batch.Batch
	b.Put(actorstore.UserKey([]byte("newest")), []byte("ann"))
	check(set.In(&b).SetState(c, value))
	check(actor.Commit(ctx, &b))
	var s state
	check(c.DecodeState(&s))
	fmt.Printf("%+v\n", s)
	// Output: {Name:ann Seen:3}
}

// A connection, and the row that says that it is here, go together, or not at all.
func ExampleSet_In() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	set, err := conn.Open(ctx, actor, nil)
	check(err)
	defer set.Close(ctx)
	c := create(ctx, actor, set)
	db, err := vfs.Open(ctx, actor, nil)
	check(err)
	defer db.Close()
	_, err = db.ExecContext(ctx, "CREATE TABLE present (id)")
	check(err)
	_, err = db.ExecContext(ctx, "INSERT INTO present VALUES (?)", string(c.ID()))
	check(err)

	for _, reason := range []error{errors.New("changed its mind"), nil} {
		err = db.Update(ctx, func(tx *vfs.Tx) error {
			if _, err := tx.ExecContext(ctx, "DELETE FROM present WHERE id = ?", string(c.ID())); err != nil {
				return err
			}
			if err := set.In(tx.Batch()).Disconnect(c); err != nil {
				return err
			}
			return reason
		})
		fmt.Println(err, c.Gone())
	}
	// Output:
	// changed its mind false
	// <nil> true
}

// What is stored can be looked at without disturbing the actor's owner.
func ExampleList() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	set, err := conn.Open(ctx, actor, nil)
	check(err)
	defer set.Close(ctx)
	create(ctx, actor, set)

	view, err := store.View(ctx, actor.ID())
	check(err)
	defer view.Close()
	for s, err := range conn.List(ctx, view) {
		check(err)
		fmt.Println(s.Record.Path, s.Size, "bytes")
	}
	// Output: /connect 66 bytes
}

// A record that can't be read is kept, and told.
func ExampleSet_Quarantined() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	check(actor.Put(ctx, actorstore.AppendConnection(nil, "broken"), []byte{4, 0, 1}))
	set, err := conn.Open(ctx, actor, &conn.Options{Env: part.Env{Logger: quiet}})
	check(err)
	defer set.Close(ctx)

	for _, q := range set.Quarantined() {
		fmt.Println(q.ID, q.Size, errors.Is(q.Err, actorstore.ErrCorrupt))
		check(set.Discard(ctx, q.ID))
	}
	fmt.Println(len(set.Quarantined()))
	// Output:
	// broken 3 true
	// 0
}

// A connection can be read and written without a Set, by programs that move data.
func ExampleParseRecord() {
	state, err := conn.Encode(map[string]int{"seen": 1})
	check(err)
	r := conn.Record{ID: "c1", Path: "/", Parameters: []byte{0xf7}, State: state, Subscriptions: []string{"tick"}}
	check(r.Validate())
	b := r.Append(nil)
	again, err := conn.ParseRecord(b)
	check(err)
	fmt.Println(again.ID, again.Subscriptions, slices.Equal(again.State, state), len(b) == r.Size())
	// Output: c1 [tick] true true
}
