package persist_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/vfs"
)

// check ends the program: examples have no other use for errors.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// open returns an actor of a new store.
func open(ctx context.Context) (*actorstore.Store, *actorstore.Actor) {
	store, err := actorstore.Open(ctx, memkv.New(), nil)
	check(err)
	actor, err := store.Named(ctx, "lobby", nil)
	check(err)
	return store, actor
}

// The state is one value in CBOR. One that can't be stored changes nothing.
func ExampleTx_SetRawState() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	rec, err := persist.Open(ctx, actor, &persist.Options{Create: true})
	check(err)
	defer rec.Close(ctx)

	set := func(value []byte) error {
		var b batch.Batch
		if err := rec.In(&b).SetRawState(value); err != nil {
			return err
		}
		return actor.Commit(ctx, &b)
	}
	check(set([]byte("\x65hello")))          // a text of five bytes
	fmt.Println(set([]byte("hello")) != nil) // not a value in CBOR
	var size *persist.SizeError
	fmt.Println(errors.As(set(append([]byte{0x5a, 0, 2, 0, 0}, make([]byte, 1<<17)...)), &size), size.What, size.Limit)
	raw, err := rec.RawState()
	fmt.Printf("%q %v\n", raw, err)
	// Output:
	// true
	// true state 131072
	// "ehello" <nil>
}

// What is scheduled is stored, and runs in whatever process has the actor by then.
func ExampleSchedule() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	rec, err := persist.Open(ctx, actor, &persist.Options{Create: true})
	check(err)
	sched := rec.Schedule()
	_, err = sched.Add(ctx, persist.Job{Action: "greet", Args: []any{"ann", 3}, At: time.Now()})
	check(err)
	_, err = sched.Add(ctx, persist.Job{ID: "sweep", Action: "sweep", Cron: "30 2 * * *", Zone: "UTC"})
	check(err)
	check(rec.Close(ctx))

	rec, err = persist.Open(ctx, actor, nil)
	check(err)
	defer rec.Close(ctx)
	sched = rec.Schedule()
	done := make(chan struct{})
	actions := map[string]persist.Action{
		"greet": func(_ context.Context, f *persist.Firing) error {
			var name string
			var times int
			if err := errors.Join(f.Arg(0, &name), f.Arg(1, &times)); err != nil {
				return err // called again a second later
			}
			fmt.Println("greet", name, times, "times, attempt", f.Attempt)
			close(done)
			return nil
		},
	}
	check(sched.Start(ctx, func(name string) persist.Action { return actions[name] }))
	<-done
	found, err := sched.Cancel(ctx, "sweep")
	fmt.Println(found, err)
	// Output:
	// greet ann 3 times, attempt 1
	// true <nil>
}

// The end of an event lands with what its action does to the database: exactly once.
func ExampleTx_Done() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	rec, err := persist.Open(ctx, actor, &persist.Options{Create: true})
	check(err)
	defer rec.Close(ctx)
	db, err := vfs.Open(ctx, actor, nil)
	check(err)
	defer db.Close()
	_, err = db.ExecContext(ctx, "create table interest(cents int); insert into interest values(0)")
	check(err)

	done := make(chan error)
	accrue := func(ctx context.Context, f *persist.Firing) error {
		err := db.Update(ctx, func(tx *vfs.Tx) error {
			if err := rec.In(tx.Batch()).Done(f); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "update interest set cents = cents + 7")
			return err
		})
		done <- err
		return err
	}
	check(rec.Schedule().Start(ctx, func(string) persist.Action { return accrue }))
	_, err = rec.Schedule().Add(ctx, persist.Job{Action: "accrue", At: time.Now()})
	check(err)
	fmt.Println(<-done)
	var cents int
	check(db.QueryRowContext(ctx, "select cents from interest").Scan(&cents))
	events, err := rec.Schedule().List()
	fmt.Println(cents, len(events), err)
	// Output:
	// <nil>
	// 7 0 <nil>
}

// Looking doesn't take the actor over.
func ExampleLook() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	rec, err := persist.Open(ctx, actor, &persist.Options{Create: true, Env: part.Env{Logger: slog.New(slog.DiscardHandler)}})
	check(err)
	defer rec.Close(ctx)
	_, err = rec.Schedule().Add(ctx, persist.Job{Action: "party", At: time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)})
	check(err)

	v, err := store.View(ctx, actor.ID())
	check(err)
	defer v.Close()
	c, err := persist.Look(ctx, v.Snapshot)
	check(err)
	fmt.Println(c.Version, c.Initialized, c.Events[0].Action, c.Events[0].At)
	// Output: 4 true party 2100-01-02 03:04:05 +0000 UTC
}
