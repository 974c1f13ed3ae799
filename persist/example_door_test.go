package persist_test

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// State and schedule change with everything else that the transaction does.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	store, err := greenroom.New(ctx, memkv.New(), nil)
	check(err)
	defer store.Close()
	lobby, err := store.Actor(ctx, "lobby", nil)
	check(err)
	defer lobby.Close()

	enter := func(tx *greenroom.Tx, guest string) error {
		return greenroom.Mutate(tx, func(r *room) error {
			r.Guests = append(r.Guests, guest)
			return nil
		})
	}
	check(lobby.Update(ctx, func(tx *greenroom.Tx) error {
		if _, err := tx.After(time.Millisecond, "arrive", "bob"); err != nil {
			return err
		}
		return enter(tx, "ann")
	}))
	lobby.Handle("arrive", func(tx *greenroom.Tx, d *greenroom.Delivery) error {
		defer stop()
		var guest string
		if err := d.Decode(&guest); err != nil {
			return err
		}
		return enter(tx, guest)
	})
	check(lobby.Run(ctx)) // until ctx is done

	check(lobby.View(context.Background(), func(v *greenroom.View) error {
		r, err := greenroom.State[room](v)
		fmt.Println(r.Guests)
		return err
	}))
	// Output: [ann bob]
}
