package conn_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

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

var lobby = conn.Info{Gateway: conn.GatewayID{1, 2, 3, 4}, Request: conn.RequestID{0, 0, 0, 7}, Path: "/connect"}

// A connection outlives the actor's stay in memory.
func ExampleOpen() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()

	set, err := conn.Open(ctx, actor, nil)
	check(err)
	c, err := set.Create(lobby)
	check(err)
	check(c.Subscribe("tick"))
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
// one that it was. Those whose clients don't come are removed.
func ExampleSet_Find() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	set, err := conn.Open(ctx, actor, nil)
	check(err)
	defer set.Close(ctx)
	_, err = set.Create(lobby)
	check(err)

	c, ok := set.Find(lobby.Gateway, lobby.Request)
	fmt.Println(ok)
	detach, err := c.Attach("a websocket")
	check(err)
	fmt.Println(c.Transport())
	detach()

	n, err := set.Cleanup(ctx, "client is gone")
	fmt.Println(n, err, set.Len())
	// Output:
	// true
	// a websocket
	// 1 <nil> 0
}

// What the actor keeps about a connection is any value of Go.
func ExampleMutate() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	set, err := conn.Open(ctx, actor, nil)
	check(err)
	defer set.Close(ctx)
	c, err := set.Create(lobby)
	check(err)

	type state struct {
		Name string `cbor:"name"`
		Seen int    `cbor:"seen"`
	}
	check(c.SetState(state{Name: "ann"}))
	for range 3 {
		check(conn.Mutate(c, func(s *state) error {
			s.Seen++
			return nil
		}))
	}
	var s state
	check(c.DecodeState(&s))
	fmt.Printf("%+v\n", s)
	// Output: {Name:ann Seen:3}
}

// A gateway may forget a message when the connection that received it is safe; indices
// start anew after 65535.
func ExampleConn_Received() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	set, err := conn.Open(ctx, actor, &conn.Options{
		Save: func(context.Context) error { return nil }, // only when it is asked for
		OnAck: func(acks []conn.Ack) {
			for _, a := range acks {
				fmt.Println("safe up to", a.Index)
			}
		},
	})
	check(err)
	defer set.Close(ctx)
	c, err := set.Create(lobby)
	check(err)

	for _, index := range []conn.Index{20_000, 40_000, 60_000, 65_535, 0, 0, 2} {
		ahead, err := c.Received(index, 100)
		check(err)
		switch {
		case ahead <= 0:
			fmt.Println(index, "has come before")
		case ahead == 2:
			fmt.Println("one is missing before", index)
		}
	}
	check(set.Save(ctx))
	// Output:
	// 0 has come before
	// one is missing before 2
	// safe up to 2
}

// The changed connections land with what else the actor saves, in one commit.
func ExampleSet_Stage() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	set, err := conn.Open(ctx, actor, nil)
	check(err)
	defer set.Close(ctx)
	_, err = set.Create(lobby)
	check(err)

	var b batch.Batch
	b.Put(actorstore.AppendPersist(nil), []byte("the actor's own record"))
	check(set.Stage(&b))
	check(actor.Commit(ctx, &b))
	fmt.Println(set.Changed())
	// Output: 0
}

// A connection, and the row that says that it is here, go together, or not at all.
func ExampleSet_StageDisconnect() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	set, err := conn.Open(ctx, actor, nil)
	check(err)
	defer set.Close(ctx)
	c, err := set.Create(lobby)
	check(err)
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
			if err := set.StageDisconnect(tx.Batch(), c); err != nil {
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

// What is stored can be looked at without disturbing who owns the actor.
func ExampleList() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	set, err := conn.Open(ctx, actor, nil)
	check(err)
	defer set.Close(ctx)
	_, err = set.Create(lobby)
	check(err)
	check(set.Save(ctx))

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
	set, err := conn.Open(ctx, actor, &conn.Options{Logger: quiet})
	check(err)
	defer set.Close(ctx)

	for _, q := range set.Quarantined() {
		fmt.Println(q.ID, q.Size, errors.Is(q.Err, conn.ErrCorrupt))
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
