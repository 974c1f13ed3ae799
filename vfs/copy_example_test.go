package vfs_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3/driver"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A database leaves as a file, while others write, and a file becomes a database: that
// is SQLite's online backup, in one transaction, on a connection of the pool.
func ExampleDB_Export() {
	ctx := context.Background()
	engine := memkv.New()
	defer engine.Close()
	store, err := actorstore.Open(ctx, engine, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	open := func(name string) *vfs.DB {
		actor, err := store.Named(ctx, name, nil)
		if err != nil {
			log.Fatal(err)
		}
		db, err := vfs.Open(ctx, actor, nil)
		if err != nil {
			log.Fatal(err)
		}
		return db
	}
	lobby := open("lobby")
	defer lobby.Close()
	if _, err := lobby.ExecContext(ctx, "create table message as select 'hello' as text"); err != nil {
		log.Fatal(err)
	}

	dir, err := os.MkdirTemp("", "greenroom-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "lobby.db")
	file, err := os.Create(path)
	if err != nil {
		log.Fatal(err)
	}
	size, err := lobby.Export(ctx, file)
	if err != nil {
		log.Fatal(err)
	}
	if err := file.Close(); err != nil {
		log.Fatal(err)
	}

	hall := open("hall")
	defer hall.Close()
	conn, err := hall.Conn(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = conn.Raw(func(c any) error {
		return c.(driver.Conn).Raw().Restore("main", "file:"+filepath.ToSlash(path)+"?vfs=os&mode=ro")
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		log.Fatal(err)
	}
	var text string
	if err := hall.QueryRowContext(ctx, "select text from message").Scan(&text); err != nil {
		log.Fatal(err)
	}
	fmt.Println(size, "bytes:", text)
	// Output: 8192 bytes: hello
}
