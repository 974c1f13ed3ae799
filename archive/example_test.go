package archive_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A program backs up its store while it uses it, marks a state, and looks at it later, and makes a store of it.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(dir)
	engine, err := pebblekv.Open(filepath.Join(dir, "shop.store"), nil) // greenroom.Store.Engine returns it, too
	check(err)
	defer engine.Close()
	store, err := actorstore.Open(ctx, engine, nil)
	check(err)
	defer store.Close()
	to, err := bucket.Folder(filepath.Join(dir, "backup")) // or s3.Open(ctx, "s3://backups/shop", nil)
	check(err)
	w, err := archive.Start(engine, to, nil)
	check(err)
	defer w.Close() // before the store

	set := func(price string) {
		actor, err := store.Named(ctx, "book", nil)
		check(err)
		check(actor.User().Put(ctx, []byte("price"), []byte(price)))
		check(actor.Close())
	}
	set("12")
	mark, err := w.Bookmark(ctx)
	check(err)
	set("15")
	check(w.Sync(ctx))

	a, err := archive.Open(ctx, to)
	check(err)
	was, err := a.Actor(ctx, mark, "book")
	check(err)
	price, err := was.User().Get(ctx, []byte("price"), nil)
	check(err)
	check(was.Close())
	fmt.Println("it was", string(price))
	check(a.Restore(ctx, mark, filepath.Join(dir, "then.store"), nil))
	// Output: it was 12
}
