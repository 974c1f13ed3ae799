package actoritems_test

import (
	"context"
	"fmt"
	"log"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/itemstore/actoritems"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A student's actor notes what a course costs, and takes a seat in it, in one commit.
func Example() {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	engine := memkv.New()
	defer engine.Close()
	schema, err := itemstore.NewSchema(1, itemstore.TypeOf[Seat](nil))
	check(err)
	seats, err := itemstore.Open(ctx, engine, "seats", schema, nil)
	check(err)
	store, err := greenroom.New(ctx, engine, nil)
	check(err)
	defer store.Close()
	ada, err := store.Actor(ctx, "ada", nil)
	check(err)
	defer ada.Close()

	err = ada.Update(ctx, func(tx *greenroom.Tx) error {
		items, err := actoritems.In(tx, seats)
		if err != nil {
			return err
		}
		if err := items.Put(tx, &Seat{Course: "math", N: 1, Holder: "ada"}, nil); err != nil {
			return err
		}
		if _, err := tx.Exec("create table fees (course text, cents integer)"); err != nil {
			return err
		}
		_, err = tx.Exec("insert into fees values ('math', 5000)")
		return err
	})
	check(err)
	for item, err := range seats.List(ctx, "/holder-ada", nil) {
		check(err)
		fmt.Println(item.Path)
	}
	var cents int
	check(ada.SQL().QueryRowContext(ctx, "select cents from fees").Scan(&cents))
	fmt.Println(cents, "cents")
	// Output:
	// /holder-ada/course-math/seat-1
	// 5000 cents
}
