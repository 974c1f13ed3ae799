package vfs_test

import (
	"context"
	"fmt"
	"log"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// An actor has a database: a *sql.DB, and in a transaction together with everything else.
func Example() {
	ctx := context.Background()
	store, err := greenroom.New(ctx, memkv.New(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	room, err := store.Actor(ctx, "lobby", &greenroom.ActorOptions{
		DB: &greenroom.DBOptions{Pragmas: []string{"foreign_keys=ON"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer room.Close()

	if _, err := room.SQL().ExecContext(ctx, "create table message(id integer primary key, words text)"); err != nil {
		log.Fatal(err)
	}
	err = room.Update(ctx, func(tx *greenroom.Tx) error {
		if _, err := tx.Exec("insert into message(words) values ('hello'), ('is anyone there?')"); err != nil {
			return err
		}
		return tx.Put([]byte("newest"), []byte("is anyone there?"))
	})
	if err != nil {
		log.Fatal(err)
	}
	var n int
	if err := room.SQL().QueryRowContext(ctx, "select count(*) from message").Scan(&n); err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "messages")
	// Output: 2 messages
}
