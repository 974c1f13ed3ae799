package vfs_test

import (
	"context"
	"fmt"
	"log"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A check says what is wrong with an actor's database, and what a crash left.
func ExampleCheck() {
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
	db, err := vfs.Open(ctx, actor, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, "create table t(a); insert into t values (randomblob(9000))"); err != nil {
		log.Fatal(err)
	}
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}
	lost, extra := actorstore.LayoutGreenroom.AppendFileChunk(nil, actorstore.FileMain, 2), actorstore.LayoutGreenroom.AppendFileChunk(nil, actorstore.FileMain, 9)
	if err := actor.Delete(ctx, lost); err != nil {
		log.Fatal(err)
	}
	if err := actor.Put(ctx, extra, []byte("a page that was never committed")); err != nil {
		log.Fatal(err)
	}

	view, err := store.View(ctx, actor.ID())
	if err != nil {
		log.Fatal(err)
	}
	defer view.Close()
	for f, err := range vfs.Check(ctx, view, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s (harmless: %v)\n", f.Where, f.What, f.Harmless)
	}
	// Output:
	// sqlite/chunks/main/2: it is missing below the size of 16384 bytes, and reads as zeros (harmless: false)
	// sqlite/chunks/main/9: it lies beyond the size of 16384 bytes; the next owner removes it (harmless: true)
}
