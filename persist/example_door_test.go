package persist_test

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/vfs"
)

type room struct {
	Guests []string `json:"guests"`
}

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

// A record alone: its state is changed by commits of its own, and is a value of Go by the
// functions of package greenroom.
func Example_alone() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	rec, err := persist.Open(ctx, actor, &persist.Options{Create: true})
	check(err)

	enter := func(guest string) error {
		var b batch.Batch
		err := greenroom.Mutate(rec.In(&b), func(r *room) error {
			r.Guests = append(r.Guests, guest)
			return nil
		})
		if err != nil {
			return err
		}
		return actor.Commit(ctx, &b)
	}
	check(enter("ann"))
	check(enter("bob"))
	check(rec.Close(ctx))

	rec, err = persist.Open(ctx, actor, nil)
	check(err)
	defer rec.Close(ctx)
	now, err := greenroom.State[room](rec)
	fmt.Println(now.Guests, err)
	// Output: [ann bob] <nil>
}

// State and SQL change with one commit, or not at all.
func ExampleRecord_In() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	rec, err := persist.Open(ctx, actor, &persist.Options{Create: true})
	check(err)
	defer rec.Close(ctx)
	db, err := vfs.Open(ctx, actor, nil)
	check(err)
	defer db.Close()
	_, err = db.ExecContext(ctx, "create table guest(name text primary key)")
	check(err)

	join := func(name string) error {
		return db.Update(ctx, func(tx *vfs.Tx) error {
			err := greenroom.Mutate(rec.In(tx.Batch()), func(r *room) error {
				r.Guests = append(r.Guests, name)
				return nil
			})
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, "insert into guest values(?)", name)
			return err
		})
	}
	fmt.Println(join("ann"), join("ann") != nil)
	v, err := greenroom.State[room](rec)
	fmt.Println(v.Guests, err)
	// Output:
	// <nil> true
	// [ann] <nil>
}
