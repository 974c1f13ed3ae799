package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/vfs"
)

// readStore runs fn with the store that url names, which is open for reading.
func readStore(ctx context.Context, url string, fn func(*storeurl.Store) error) error {
	return withStore(ctx, url, &storeurl.Options{ReadOnly: true}, fn)
}

func withStore(ctx context.Context, url string, opts *storeurl.Options, fn func(*storeurl.Store) error) error {
	s, err := storeurl.Open(ctx, url, opts)
	if err != nil {
		return storeError(url, err)
	}
	return errors.Join(formatError(url, fn(s)), storeError(url, s.Close()))
}

// view runs fn with the state of an actor as it is now.
func view(ctx context.Context, url, actor string, fn func(*actorstore.View) error) error {
	return readStore(ctx, url, func(s *storeurl.Store) error {
		id, err := findActor(ctx, s, actor)
		if err != nil {
			return actorError(url, actor, err)
		}
		v, err := s.View(ctx, id)
		if err != nil {
			return actorError(url, actor, err)
		}
		return errors.Join(fn(v), v.Close())
	})
}

// findActor returns the id that the text of an actor stands for. That of a name
// which no actor has is the one that the name leads to: an actor that was created
// by its id alone may be there.
func findActor(ctx context.Context, s *storeurl.Store, actor string) (actorstore.ID, error) {
	if text, ok := strings.CutPrefix(actor, "id:"); ok {
		return actorstore.ParseID(text)
	}
	id, err := s.Lookup(ctx, actor)
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return actorstore.IDFromName(actor), nil
	}
	return id, err
}

// A target is an actor that a command writes to.
type target struct {
	url, actor string
	// create makes store and actor where there is none; the actor is recorded
	// with its first write.
	create bool
	limits batch.Limits // zero: the default
}

// own runs fn with the handle of an actor. What was written is on stable storage
// when own returns nil.
func own(ctx context.Context, t target, fn func(*actorstore.Actor) error) error {
	return withStore(ctx, t.url, &storeurl.Options{Create: t.create, Limits: t.limits}, func(s *storeurl.Store) error {
		a, err := takeActor(ctx, s, t.actor, &actorstore.ActorOptions{MustExist: !t.create})
		if err != nil {
			return actorError(t.url, t.actor, err)
		}
		err = fn(a)
		if a.Err() == nil {
			// Also after an interrupt: what is committed must not get lost, even
			// if PRAGMA synchronous didn't ask for it.
			err = errors.Join(err, a.Sync(context.WithoutCancel(ctx)))
		}
		return errors.Join(err, a.Close())
	})
}

func takeActor(ctx context.Context, s *storeurl.Store, actor string, opts *actorstore.ActorOptions) (*actorstore.Actor, error) {
	text, ok := strings.CutPrefix(actor, "id:")
	if !ok {
		return s.Named(ctx, actor, opts)
	}
	id, err := actorstore.ParseID(text)
	if err != nil {
		return nil, err
	}
	return s.Actor(ctx, id, opts)
}

// ownDatabase is own for the actor's SQLite database.
func ownDatabase(ctx context.Context, t target, fn func(*vfs.DB) error) error {
	return own(ctx, t, func(a *actorstore.Actor) error {
		db, err := vfs.Open(ctx, a, quiet())
		if err != nil {
			return err
		}
		err = fn(db)
		if err != nil {
			settle(ctx, db)
		}
		return errors.Join(err, db.Close())
	})
}

// quiet are the options of a database whose events go nowhere: what goes wrong is the
// command's one line on standard error.
func quiet() *vfs.Options { return &vfs.Options{Logger: slog.New(slog.DiscardHandler)} }

// settle lets SQLite look at a database after an error. A transaction that failed
// half way has left its journal, which the next one to look rolls back: that
// should not be left to somebody who may only read. Where it can't be done now,
// the next owner does it, and what is to be told is the first error.
func settle(ctx context.Context, db *vfs.DB) {
	var one int
	_ = db.QueryRowContext(context.WithoutCancel(ctx), "SELECT count(*) FROM sqlite_schema").Scan(&one)
}

// viewDatabase is view for the actor's SQLite database.
func viewDatabase(ctx context.Context, url, actor string, fn func(*vfs.DB) error) error {
	return view(ctx, url, actor, func(v *actorstore.View) error {
		found, err := hasDatabase(ctx, v)
		if err != nil {
			return err
		}
		if !found {
			return say(nil, "the actor %s has no database", actor)
		}
		db, err := vfs.OpenView(ctx, v, quiet())
		if err != nil {
			return err
		}
		return errors.Join(cutOff(url, actor, fn(db)), db.Close())
	})
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

// hasDatabase says whether there is a key of an SQLite file.
func hasDatabase(ctx context.Context, r actorstore.Reader) (bool, error) {
	start, end := actorstore.NamespaceRange(actorstore.NamespaceSQLite)
	for _, err := range r.List(ctx, actorstore.ListOptions{Start: start, End: end, Limit: 1, KeysOnly: true}) {
		return err == nil, err
	}
	return false, nil
}
