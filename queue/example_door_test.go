package queue_test

import (
	"context"
	"fmt"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
)

// Exactly once: what is done about a message lands with the end of the message.
func Example() {
	ctx := context.Background()
	store, err := greenroom.New(ctx, memkv.New(), nil)
	check(err)
	defer store.Close()
	shop, err := store.Actor(ctx, "shop", nil)
	check(err)
	defer shop.Close()
	_, err = shop.SQL().ExecContext(ctx, "create table payments(id integer primary key, cents int)")
	check(err)

	check(shop.Update(ctx, func(tx *greenroom.Tx) error {
		_, err := tx.Enqueue(queue.Send{Name: "payment", Body: 250})
		return err
	}))
	check(shop.Update(ctx, func(tx *greenroom.Tx) error {
		m, err := tx.Receive("payment")
		if err != nil || m == nil {
			return err
		}
		var cents int
		if err := m.Decode(&cents); err != nil {
			return err
		}
		if _, err := tx.Exec("insert into payments values (?, ?)", m.ID, cents); err != nil {
			return err // the message is in the queue as it was
		}
		return m.Complete(nil)
	}))

	var id, cents int
	check(shop.SQL().QueryRowContext(ctx, "select * from payments").Scan(&id, &cents))
	fmt.Println("payment", id, "of", cents, "cents")
	// Output: payment 1 of 250 cents
}
