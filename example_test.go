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

// Two accounts are actors, and a transfer changes both or neither.
func ExampleUpdate() {
	dir, err := os.MkdirTemp("", "greenroom-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	ctx := context.Background()
	store, err := greenroom.Open(ctx, filepath.Join(dir, "bank.store"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	var accounts []*greenroom.Actor
	for _, name := range []string{"ann", "bob"} {
		a, err := store.Actor(ctx, name, nil)
		if err != nil {
			log.Fatal(err)
		}
		defer a.Close()
		if _, err := a.SQL().ExecContext(ctx, "create table account as select 100 as balance"); err != nil {
			log.Fatal(err)
		}
		accounts = append(accounts, a)
	}

	transfer := func(amount int) error {
		return greenroom.Update(ctx, accounts, func(txs []*greenroom.Tx) error {
			var left int
			if err := txs[0].QueryRow("update account set balance = balance - ? returning balance", amount).Scan(&left); err != nil {
				return err
			}
			if _, err := txs[1].Exec("update account set balance = balance + ?", amount); err != nil {
				return err
			}
			if left < 0 {
				return fmt.Errorf("ann lacks %d", -left)
			}
			return nil
		})
	}
	fmt.Println(transfer(30))
	fmt.Println(transfer(90))

	err = store.Views(ctx, []string{"ann", "bob"}, func(vs []*greenroom.View) error {
		for _, v := range vs {
			var balance int
			if err := v.QueryRow("select balance from account").Scan(&balance); err != nil {
				return err
			}
			fmt.Println(v.Info().Name, balance)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// <nil>
	// ann lacks 20
	// ann 70
	// bob 130
}
