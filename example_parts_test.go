package greenroom_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// check ends the program: examples have no other use for errors.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// open takes an actor of a new store in memory, and returns what closes both.
func open(ctx context.Context) (*greenroom.Actor, func()) {
	store, err := greenroom.New(ctx, memkv.New(), nil)
	check(err)
	shop, err := store.Actor(ctx, "shop", nil)
	check(err)
	return shop, func() { check(errors.Join(shop.Close(), store.Close())) }
}

// When the function returns an error nothing that it has written is there.
func ExampleActor_Update() {
	ctx := context.Background()
	shop, done := open(ctx)
	defer done()

	err := shop.Update(ctx, func(tx *greenroom.Tx) error {
		if _, err := tx.Exec("create table orders(item text)"); err != nil {
			return err
		}
		if err := tx.Put([]byte("last order"), []byte("tea")); err != nil {
			return err
		}
		return errors.New("the tea is out")
	})
	fmt.Println(err)
	err = shop.Update(ctx, func(tx *greenroom.Tx) error {
		_, err := tx.Get([]byte("last order"))
		return err
	})
	fmt.Println(errors.Is(err, greenroom.ErrNotFound))
	// Output:
	// the tea is out
	// true
}

// A View is one state of everything, whatever is written meanwhile.
func ExampleActor_View() {
	ctx := context.Background()
	shop, done := open(ctx)
	defer done()
	order := func(item string) error {
		return shop.Update(ctx, func(tx *greenroom.Tx) error {
			if _, err := tx.Exec("create table if not exists orders(item text)"); err != nil {
				return err
			}
			if _, err := tx.Exec("insert into orders values (?)", item); err != nil {
				return err
			}
			return tx.Put([]byte("last order"), []byte(item))
		})
	}
	check(order("tea"))

	err := shop.View(ctx, func(v *greenroom.View) error {
		if err := order("coffee"); err != nil {
			return err
		}
		var n int
		if err := v.QueryRow("select count(*) from orders").Scan(&n); err != nil {
			return err
		}
		last, err := v.Get([]byte("last order"))
		fmt.Printf("%d order, the last one for %s\n", n, last)
		return err
	})
	check(err)
	// Output: 1 order, the last one for tea
}

// UpdateApplied doesn't wait for the disk, and Sync waits for all that was applied.
func ExampleActor_UpdateApplied() {
	ctx := context.Background()
	shop, done := open(ctx)
	defer done()
	for i := range 100 {
		check(shop.UpdateApplied(ctx, func(tx *greenroom.Tx) error {
			return tx.Put(fmt.Appendf(nil, "visitor %d", i), nil)
		}))
	}
	check(shop.Sync(ctx))
	// Output:
}

// What a handler does lands with the end of the message or the event, so it is done once.
func ExampleActor_Handle() {
	ctx, stop := context.WithCancel(context.Background())
	shop, done := open(ctx)
	defer done()

	shop.Handle("order", func(tx *greenroom.Tx, d *greenroom.Delivery) error {
		var item string
		if err := d.Decode(&item); err != nil {
			return err
		}
		_, err := tx.After(time.Millisecond, "remind", item)
		return err
	})
	shop.Handle("remind", func(_ *greenroom.Tx, d *greenroom.Delivery) error {
		var item string
		if err := d.Decode(&item); err != nil {
			return err
		}
		fmt.Println("the", item, "is ready")
		stop()
		return nil
	})
	check(shop.Update(ctx, func(tx *greenroom.Tx) error {
		_, err := tx.Enqueue(queue.Send{Name: "order", Body: "tea"})
		return err
	}))
	check(shop.Run(ctx)) // until ctx is done
	// Output: the tea is ready
}

// A message that is received and completed in a transaction is gone when that lands, and
// in the queue as it was if it doesn't.
func ExampleTx_Receive() {
	ctx := context.Background()
	shop, done := open(ctx)
	defer done()
	check(shop.Update(ctx, func(tx *greenroom.Tx) error {
		_, err := tx.Enqueue(queue.Send{Name: "order", Body: "tea"})
		return err
	}))

	for _, failure := range []error{errors.New("no water"), nil, nil} {
		err := shop.Update(ctx, func(tx *greenroom.Tx) error {
			m, err := tx.Receive("order")
			if err != nil || m == nil {
				return err
			}
			var item string
			if err := m.Decode(&item); err != nil {
				return err
			}
			fmt.Println("making", item)
			return errors.Join(failure, m.Complete("here you are"))
		})
		fmt.Println(err)
	}
	// Output:
	// making tea
	// no water
	// making tea
	// <nil>
	// <nil>
}

// A till is a state: what changes is a copy, until it is set.
func ExampleState() {
	type till struct {
		Cents int `json:"cents"`
	}
	ctx := context.Background()
	shop, done := open(ctx)
	defer done()
	check(shop.Update(ctx, func(tx *greenroom.Tx) error {
		return greenroom.SetState(tx, till{Cents: 100})
	}))
	check(shop.Update(ctx, func(tx *greenroom.Tx) error {
		return greenroom.Mutate(tx, func(t *till) error {
			t.Cents += 250
			return nil
		})
	}))
	check(shop.View(ctx, func(v *greenroom.View) error {
		t, err := greenroom.State[till](v)
		fmt.Println(t.Cents)
		return err
	}))
	// Output: 350
}

// A workflow that is over is not run again.
func ExampleRunWorkflow() {
	ctx := context.Background()
	shop, done := open(ctx)
	defer done()
	order := func(c *workflow.Context, item string) (string, error) {
		err := workflow.Do(c, "charge", func(context.Context) error {
			fmt.Println("charging for", item)
			return nil
		})
		return item + " is paid", err
	}
	for range 2 {
		fmt.Println(greenroom.RunWorkflow(ctx, shop, order, "tea"))
	}
	// Output:
	// charging for tea
	// tea is paid <nil>
	// tea is paid <nil>
}

// What a step does to the actor lands with the step's result.
func ExampleStepTx() {
	ctx := context.Background()
	shop, done := open(ctx)
	defer done()
	_, err := shop.SQL().ExecContext(ctx, "create table orders(id integer primary key, item text)")
	check(err)
	order := func(c *workflow.Context, item string) (int64, error) {
		return greenroom.StepTx(c, "write down", func(tx *greenroom.Tx) (int64, error) {
			res, err := tx.Exec("insert into orders(item) values (?)", item)
			if err != nil {
				return 0, err
			}
			return res.LastInsertId()
		})
	}
	fmt.Println(greenroom.RunWorkflow(ctx, shop, order, "tea"))
	// Output: 1 <nil>
}
