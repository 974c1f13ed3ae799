package greenroom_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/greenroomdb/greenroom"
)

// A shop's actor counts its orders in a key and lists them in a table: both change
// together, or neither does.
func Example() {
	dir, err := os.MkdirTemp("", "greenroom-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	ctx := context.Background()
	store, err := greenroom.Open(ctx, filepath.Join(dir, "shop.store"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	shop, err := store.Actor(ctx, "shop", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer shop.Close()

	if _, err := shop.SQL().ExecContext(ctx, "create table orders(id integer primary key, what text)"); err != nil {
		log.Fatal(err)
	}
	err = shop.Update(ctx, func(tx *greenroom.Tx) error {
		if _, err := tx.Exec("insert into orders(what) values (?)", "tea"); err != nil {
			return err
		}
		return tx.Put([]byte("last order"), []byte("tea"))
	})
	if err != nil {
		log.Fatal(err)
	}

	err = shop.View(ctx, func(v *greenroom.View) error {
		var orders int
		if err := v.QueryRow("select count(*) from orders").Scan(&orders); err != nil {
			return err
		}
		last, err := v.Get([]byte("last order"))
		fmt.Printf("%d order, the last one for %s\n", orders, last)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 1 order, the last one for tea
}
