package actordocs_test

import (
	"context"
	"fmt"
	"log"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/docstore/actordocs"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A reader's actor notes a loan, and the book's document says where the book is, in one commit.
func Example() {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	engine := memkv.New()
	defer engine.Close()
	library, err := docstore.Open(ctx, engine, "library", nil)
	check(err)
	check(library.Update(ctx, func(tx *docstore.Tx) error {
		if err := tx.Create(ctx, "/emma", "Book", docstore.Properties{"title": "Emma"}); err != nil {
			return err
		}
		return tx.CreateCategory(ctx, "/lent", "Book", "lentTo != null")
	}))
	store, err := greenroom.New(ctx, engine, nil)
	check(err)
	defer store.Close()
	ada, err := store.Actor(ctx, "ada", nil)
	check(err)
	defer ada.Close()

	err = ada.Update(ctx, func(tx *greenroom.Tx) error {
		docs, err := actordocs.In(tx, library)
		if err != nil {
			return err
		}
		if err := docs.SetProperty(tx, "/emma", "lentTo", "ada"); err != nil {
			return err
		}
		if _, err := tx.Exec("create table loans (book text, days integer)"); err != nil {
			return err
		}
		_, err = tx.Exec("insert into loans values ('/emma', 14)")
		return err
	})
	check(err)
	check(library.View(ctx, func(tx *docstore.Tx) error {
		for path, err := range tx.Members(ctx, "/lent") {
			check(err)
			fmt.Println(path)
		}
		return nil
	}))
	var days int
	check(ada.SQL().QueryRowContext(ctx, "select days from loans").Scan(&days))
	fmt.Println(days, "days")
	// Output:
	// /emma
	// 14 days
}
