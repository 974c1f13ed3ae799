package vfs_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A database alone: Open gives a database/sql pool on it.
func Example_alone() {
	ctx := context.Background()
	engine := memkv.New()
	defer engine.Close()
	store, err := actorstore.Open(ctx, engine, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	actor, err := store.Named(ctx, "lobby", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer actor.Close()

	db, err := vfs.Open(ctx, actor, &vfs.Options{Pragmas: []string{"foreign_keys=ON"}})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, `create table message(id integer primary key, text);
		insert into message(text) values ('hello'), ('is anyone there?')`); err != nil {
		log.Fatal(err)
	}
	var n int
	if err := db.QueryRowContext(ctx, "select count(*) from message").Scan(&n); err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "messages")
	// Output: 2 messages
}

// A VFS serves several actors to plain sql.Open, each under a name.
func ExampleVFS() {
	ctx := context.Background()
	engine := memkv.New()
	defer engine.Close()
	store, err := actorstore.Open(ctx, engine, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	rooms := vfs.New(nil)
	if err := rooms.Register("rooms"); err != nil {
		log.Fatal(err)
	}
	defer rooms.Unregister()
	for _, name := range []string{"red", "blue"} {
		actor, err := store.Named(ctx, name, nil)
		if err != nil {
			log.Fatal(err)
		}
		defer actor.Close()
		if err := rooms.Mount(ctx, name, actor); err != nil {
			log.Fatal(err)
		}
		db, err := sql.Open("sqlite3", "file:/"+name+"?vfs=rooms")
		if err != nil {
			log.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(ctx, "create table t as select ? as a", name); err != nil {
			log.Fatal(err)
		}
		var a string
		if err := db.QueryRowContext(ctx, "select a from t").Scan(&a); err != nil {
			log.Fatal(err)
		}
		fmt.Println(a)
	}
	// Output:
	// red
	// blue
}
