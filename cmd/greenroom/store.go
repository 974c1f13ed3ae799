package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/vfs"
)

// readStore runs fn with the store of t, which is open for reading, and says on standard error if commits at the end of
// the log are left out.
func readStore(ctx context.Context, t target, fn func(*storeurl.Store) error) error {
	opts := greenroom.Options{ReadOnly: true}
	if t.env.withoutLogRest {
		opts.WithoutLogRest = func(cause error) {
			t.env.leftOut = cause
			fmt.Fprintf(t.env.stderr, "greenroom: the end of the log of %s is left out: %s\n", storeurl.Display(t.url), serving.Message(cause))
		}
	}
	return serving.WithStore(ctx, t.url, opts, fn)
}

// logRestFlag adds the flag with which a command reads a store whose log is damaged.
func logRestFlag(cmd *cobra.Command, e *env) {
	cmd.Flags().BoolVar(&e.withoutLogRest, "without-log-rest", false, "if the log is damaged, read what was committed before the damage")
}

// withEngine runs fn with the engine of a store, for what stands on it beside actors. open is storeurl.OpenEngine or storeurl.Reach.
func withEngine(ctx context.Context, url string, open openEngine, opts greenroom.Options, fn func(kv.Engine) error) error {
	e, err := open(ctx, url, opts)
	if err != nil {
		return serving.StoreError(url, err)
	}
	return errors.Join(serving.FormatError(url, fn(e)), serving.StoreError(url, e.Close()))
}

type openEngine func(ctx context.Context, url string, opts greenroom.Options) (kv.Engine, error)

// view runs fn with the state of an actor as it is now.
func view(ctx context.Context, t target, fn func(*greenroom.View) error) error {
	return readStore(ctx, t, func(s *storeurl.Store) error { return viewIn(ctx, s, t, fn) })
}

// viewIn is view in a store that is open.
func viewIn(ctx context.Context, s *storeurl.Store, t target, fn func(*greenroom.View) error) error {
	found := false
	err := s.View(ctx, t.actor, func(v *greenroom.View) error {
		found = true
		return fn(v)
	})
	if !found {
		err = actorError(ctx, s, &t, err)
	}
	return err
}

// A target is an actor that a command reads or writes to.
type target struct {
	url, actor string
	// create makes a missing store and a missing actor; the actor is recorded with its
	// first write.
	create bool
	env    *env // is told what was left out or made, and how hosts are asked
	// agree returns nil if what isn't there may be made; without it, it may. missing says
	// what that is.
	agree  func(missing error) error
	limits batch.Limits // zero: the default
	queue  *greenroom.QueueOptions
}

// own runs fn with an actor. What was written is on stable storage when own returns nil.
func own(ctx context.Context, t target, fn func(*greenroom.Actor) error) error {
	opts, found := greenroom.Options{MustExist: true, Limits: t.limits}, false
	err := serving.WithStore(ctx, t.url, opts, func(s *storeurl.Store) error {
		found = true
		return t.own(ctx, s, fn)
	})
	if found || !t.create || !errors.Is(err, kv.ErrNoStore) {
		return err
	}
	if err := t.mayMake(err); err != nil {
		return err
	}
	t.agree = nil // to the actor too
	opts.MustExist = false
	return serving.WithStore(ctx, t.url, opts, func(s *storeurl.Store) error {
		t.made("store", storeurl.Display(t.url))
		return t.own(ctx, s, fn)
	})
}

// own is own in a store that is open.
func (t *target) own(ctx context.Context, s *storeurl.Store, fn func(*greenroom.Actor) error) error {
	opts := greenroom.ActorOptions{MustExist: true, Queue: t.queue}
	a, err := s.Actor(ctx, t.actor, &opts)
	isNew := t.create && errors.Is(err, actorstore.ErrUnknownActor)
	if err != nil {
		err = actorError(ctx, s, t, err)
	}
	if isNew {
		if err = t.mayMake(err); err == nil {
			opts.MustExist = false
			a, err = s.Actor(ctx, t.actor, &opts)
		}
	}
	if err != nil {
		return err
	}
	err = fn(a)
	if a.Err() == nil {
		// Also after an interrupt: what is committed must not get lost, even
		// if PRAGMA synchronous didn't ask for it.
		err = errors.Join(err, a.Sync(context.WithoutCancel(ctx)))
	}
	err = errors.Join(err, a.Close())
	if isNew && s.View(context.WithoutCancel(ctx), t.actor, func(*greenroom.View) error { return nil }) == nil {
		t.made("actor", t.actor)
	}
	return err
}

// mayMake returns missing, or another error, if what isn't there must not be made.
func (t *target) mayMake(missing error) error {
	if t.agree == nil || t.forgotten() {
		return nil
	}
	return t.agree(missing)
}

// made tells what was made.
func (t *target) made(what, name string) {
	if !t.forgotten() {
		fmt.Fprintf(t.env.stderr, "made the %s %s\n", what, name)
	}
}

// forgotten says whether the store is in memory, where nothing is there before.
func (t *target) forgotten() bool { return strings.HasPrefix(t.url, "mem:") }

// onConn runs fn with a connection of db.
func onConn(ctx context.Context, db *sql.DB, fn func(sqlrun.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	err = conn.Raw(func(c any) error { return fn(c.(sqlrun.Conn)) })
	return errors.Join(err, conn.Close())
}

// ownDatabase is own for the actor's SQLite database.
//
// After an error SQLite looks at the database once more. A transaction that failed
// half way has left its journal, which the next one to look rolls back: that
// should not be left to a command that may only read. Where it can't be done now,
// the next owner does it, and what is to be told is the first error.
func ownDatabase(ctx context.Context, t target, fn func(*sql.DB) error) error {
	return own(ctx, t, func(a *greenroom.Actor) error {
		err := fn(a.SQL())
		if err != nil {
			var one int
			_ = a.SQL().QueryRowContext(context.WithoutCancel(ctx), "SELECT count(*) FROM sqlite_schema").Scan(&one)
		}
		return err
	})
}

// viewDatabase is view for the actor's SQLite database.
func viewDatabase(ctx context.Context, t target, fn func(*sql.DB) error) error {
	return view(ctx, t, func(v *greenroom.View) error {
		if found, err := vfs.Exists(ctx, v.Lower()); err != nil || !found {
			return cmp.Or(err, say(nil, "the actor %s has no database", t.actor))
		}
		return databaseOf(t, v, fn)
	})
}

// databaseOf runs fn with the database that a view shows.
func databaseOf(t target, v *greenroom.View, fn func(*sql.DB) error) error {
	db, err := v.SQL()
	if err != nil {
		return err
	}
	return cutOff(t.url, t.actor, fn(db))
}

// cutOff explains that a database can't be read before its owner has rolled back
// a transaction. It is not done here: a command that reads takes no actor over.
func cutOff(url, actor string, err error) error {
	if !errors.Is(err, sqlite3.READONLY_ROLLBACK) {
		return err
	}
	return say(err, "the last transaction of the actor %s was cut off: "+
		"run greenroom sql %s %s .tables once, which rolls it back", actor, storeurl.Display(url), actor)
}
