package actorstore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// remote stands for an engine that several processes may use.
type remote struct{ kv.Engine }

func ExampleHostOptions() {
	ctx := context.Background()
	engine := remote{memkv.New()}
	host := func(name string) *actorstore.Store {
		s, err := actorstore.Open(ctx, engine, &actorstore.Options{
			Host: actorstore.HostOptions{Name: name, TTL: time.Minute},
		})
		check(err)
		return s
	}
	east, west := host("east"), host("west")
	defer east.Close()
	defer west.Close()

	lobby, err := east.Named(ctx, "lobby", nil)
	check(err)
	check(lobby.Put(ctx, actorstore.UserKey([]byte("color")), []byte("green")))

	// One host has an actor at a time. The others are told which.
	_, err = west.Named(ctx, "lobby", nil)
	var in *actorstore.InUseError
	if errors.As(err, &in) {
		fmt.Println("in use by", in.Host.Name)
	}
	owner, err := west.Owner(ctx, lobby.ID())
	check(err)
	fmt.Println("owned by", owner.Name)

	// An actor that is closed is free for everybody.
	check(lobby.Close())
	lobby, err = west.Named(ctx, "lobby", nil)
	check(err)
	color, err := lobby.Get(ctx, actorstore.UserKey([]byte("color")), nil)
	check(err)
	fmt.Printf("west reads %s\n", color)
	for h, err := range west.Hosts(ctx) {
		check(err)
		fmt.Println(h.Name == "east" || h.Name == "west", h.TTL)
	}
	// Output:
	// in use by east
	// owned by east
	// west reads green
	// true 1m0s
	// true 1m0s
}

func ExampleStore_Actor_force() {
	ctx := context.Background()
	engine := remote{memkv.New()}
	opts := &actorstore.Options{Host: actorstore.HostOptions{TTL: 3 * time.Second}}
	east, err := actorstore.Open(ctx, engine, opts)
	check(err)
	defer east.Close()
	west, err := actorstore.Open(ctx, engine, opts)
	check(err)
	defer west.Close()

	lobby, err := east.Named(ctx, "lobby", nil)
	check(err)
	check(lobby.Put(ctx, actorstore.UserKey([]byte("color")), []byte("green")))

	// East is asked for the actor, and gives it up with the next renewal of its lease.
	moved, err := west.Actor(ctx, lobby.ID(), &actorstore.ActorOptions{Force: true})
	check(err)
	fmt.Println(moved.Owned(ctx))
	fmt.Println(errors.Is(lobby.Owned(ctx), actorstore.ErrFenced))
	// Output:
	// <nil>
	// true
}
