package persist_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
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

type room struct {
	Topic  string   `json:"topic"`
	Guests []string `json:"guests"`
}

// A record alone: its state is changed by commits, here each with one of its own.
func Example_alone() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()

	rec, err := persist.Open(ctx, actor, &persist.Options{Create: true, Input: "the weather"})
	check(err)
	state, err := persist.OpenState(ctx, rec, &persist.StateOptions[room]{
		Initial: func(_ context.Context, r *persist.Record) (v room, err error) {
			err = r.Input(&v.Topic)
			return v, err
		},
	})
	check(err)
	check(state.Mutate(ctx, func(r *room) error {
		r.Guests = append(r.Guests, "ann")
		return nil
	}))
	check(state.Set(ctx, room{Topic: "the end"}))
	check(rec.Close(ctx))

	rec, err = persist.Open(ctx, actor, nil)
	check(err)
	defer rec.Close(ctx)
	state, err = persist.OpenState[room](ctx, rec, nil)
	check(err)
	now, err := state.Get()
	fmt.Println(now.Topic, len(now.Guests), err)
	// Output: the end 0 <nil>
}

// What can't be stored changes nothing.
func ExampleState_Mutate() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	rec, err := persist.Open(ctx, actor, &persist.Options{Create: true})
	check(err)
	defer rec.Close(ctx)
	state, err := persist.OpenState[room](ctx, rec, nil)
	check(err)

	err = state.Mutate(ctx, func(r *room) error {
		r.Topic = string(make([]byte, 1<<20))
		return nil
	})
	var size *persist.SizeError
	fmt.Println(errors.As(err, &size), size.What, size.Limit)
	v, err := state.View() // is not a copy, and must not be changed
	fmt.Printf("%q %v\n", v.Topic, err)
	// Output:
	// true state 131072
	// "" <nil>
}

// State and SQL change with one commit, or not at all.
func ExampleRecord_In() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	rec, err := persist.Open(ctx, actor, &persist.Options{Create: true})
	check(err)
	defer rec.Close(ctx)
	state, err := persist.OpenState[room](ctx, rec, nil)
	check(err)
	db, err := vfs.Open(ctx, actor, nil)
	check(err)
	defer db.Close()
	_, err = db.ExecContext(ctx, "create table guest(name text primary key)")
	check(err)

	join := func(name string) error {
		return db.Update(ctx, func(tx *vfs.Tx) error {
			err := persist.Mutate(rec.In(tx.Batch()), func(r *room) error {
				r.Guests = append(r.Guests, name)
				return nil
			})
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, "insert into guest values(?)", name)
			return err
		})
	}
	fmt.Println(join("ann"), join("ann") != nil)
	v, err := state.Get()
	fmt.Println(v.Guests, err)
	// Output:
	// <nil> true
	// [ann] <nil>
}

// What is scheduled is stored, and runs in whatever process has the actor by then.
func ExampleSchedule() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	rec, err := persist.Open(ctx, actor, &persist.Options{Create: true})
	check(err)
	sched := rec.Schedule()
	_, err = sched.After(ctx, 0, "greet", "ann", 3)
	check(err)
	_, err = sched.Add(ctx, persist.Job{ID: "sweep", Action: "sweep", Cron: "30 2 * * *", Zone: "UTC"})
	check(err)
	check(rec.Close(ctx))

	rec, err = persist.Open(ctx, actor, nil)
	check(err)
	defer rec.Close(ctx)
	sched = rec.Schedule()
	done := make(chan struct{})
	check(sched.Start(ctx, persist.Actions{
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
	}.Lookup))
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
	check(rec.Schedule().Start(ctx, persist.Actions{"accrue": func(ctx context.Context, f *persist.Firing) error {
		err := db.Update(ctx, func(tx *vfs.Tx) error {
			if err := rec.In(tx.Batch()).Done(f); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "update interest set cents = cents + 7")
			return err
		})
		done <- err
		return err
	}}.Lookup))
	_, err = rec.Schedule().At(ctx, time.Now(), "accrue")
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

// The token is made once, and compared in constant time.
func ExampleOpenToken() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	token, err := persist.OpenToken(ctx, actor)
	check(err)
	fmt.Println(token, len(token.Reveal()), token.Check(token.Reveal()), token.CheckBearer("Bearer guess"))
	// Output: persist.Token 43 true false
}

// Looking doesn't take the actor over.
func ExampleLook() {
	ctx := context.Background()
	store, actor := open(ctx)
	defer store.Close()
	rec, err := persist.Open(ctx, actor, &persist.Options{Create: true, Logger: slog.New(slog.DiscardHandler)})
	check(err)
	defer rec.Close(ctx)
	_, err = rec.Schedule().At(ctx, time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC), "party")
	check(err)

	v, err := store.View(ctx, actor.ID())
	check(err)
	defer v.Close()
	c, err := persist.Look(ctx, v.Snapshot)
	check(err)
	fmt.Println(c.Version, c.Initialized, c.Events[0].Action, c.Events[0].At)
	// Output: 4 false party 2100-01-02 03:04:05 +0000 UTC
}
