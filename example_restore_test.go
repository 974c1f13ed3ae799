package greenroom_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// An agent tries something. If that goes wrong it is as if it had never been, and what it did can still be looked at.
func ExampleStore_Restore() {
	dir, err := os.MkdirTemp("", "greenroom-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := tryAndUndo(context.Background(), dir); err != nil {
		log.Fatal(err)
	}
	// Output:
	// the plan is: buy tea
}

func tryAndUndo(ctx context.Context, dir string) (err error) {
	engine, err := pebblekv.Open(filepath.Join(dir, "agents.store"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	to, err := bucket.Folder(filepath.Join(dir, "backup"))
	if err != nil {
		return err
	}
	backup, err := archive.Start(engine, to, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backup.Close()) }()
	store, err := greenroom.New(ctx, engine, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	agent, err := store.Actor(ctx, "agent", nil)
	if err != nil {
		return err
	}
	plan := func(text string) error {
		return agent.Update(ctx, func(tx *greenroom.Tx) error { return greenroom.SetState(tx, text) })
	}
	if err := plan("buy tea"); err != nil {
		return err
	}
	mark, err := agent.Bookmark(ctx)
	if err != nil {
		return err
	}
	if err := plan("buy the tea shop"); err != nil {
		return err
	}
	if _, err := agent.Restore(ctx, mark, nil); err != nil { // which closes the actor
		return err
	}
	agent, err = store.Actor(ctx, "agent", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.Close()) }()
	return agent.View(ctx, func(v *greenroom.View) error {
		text, err := greenroom.State[string](v)
		fmt.Println("the plan is:", text)
		return err
	})
}
