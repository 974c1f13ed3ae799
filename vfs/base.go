package vfs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/ncruces/go-sqlite3"
)

// A base is what every part of a database has: which one it is, what it counts and says, and whether it has failed.
type base struct {
	name  string
	actor *actorstore.Actor // nil: a read-only view
	opts  *Options
	log   *slog.Logger
	stats counters
	meter *meter

	cause  atomic.Pointer[error] // the last error that SQLite was told
	failed atomic.Pointer[error] // set once: no operation succeeds any more
	spoil  func()                // makes SQLite's caches in WAL mode useless, after a failure
}

// fail makes every later operation fail. The first reason stays.
func (db *base) fail(err error) {
	if db.failed.CompareAndSwap(nil, &err) {
		db.refusing(err)
		db.spoil()
	}
}

// healthy returns ErrFailed, with its reason, after a failure, or when the actor
// has another owner: what memory holds of it isn't true any more.
func (db *base) healthy() error {
	if db.actor != nil {
		if err := db.actor.Err(); err != nil {
			db.fail(err)
		}
	}
	if p := db.failed.Load(); p != nil {
		return fmt.Errorf("%w: %w", ErrFailed, *p)
	}
	return nil
}

// owned is healthy, asked where SQLite is about to answer from its own cache: on an
// engine that other processes use, too, it finds out whether the actor has another owner.
func (db *base) owned(ctx context.Context) error {
	if db.actor != nil {
		if err := db.actor.Owned(ctx); err != nil && db.actor.Err() == nil {
			return err // not known, or closed
		}
	}
	return db.healthy()
}

// sqliteError remembers err for DB.Cause, and returns what SQLite should see.
func (db *base) sqliteError(err error, ioerr sqlite3.ExtendedErrorCode) error {
	if err == nil {
		return nil
	}
	cause := err // a variable of its own: err would move to the heap also when it is nil
	db.cause.Store(&cause)
	return sqliteError(err, ioerr)
}

// refusal returns why no statement may run, nil if it may.
func (db *base) refusal(ctx context.Context) error {
	err := db.owned(ctx)
	if err != nil {
		cause := err
		db.cause.Store(&cause)
	}
	return err
}

// lastCause returns the last error that SQLite was told, nil before the first.
func (db *base) lastCause() error {
	if p := db.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// What a database says to Options.Logger. Errors reach the caller of the statement
// that met them, so only what outlives a statement is worth a line: that the database
// refuses everything (Error; Warn when another owner took the actor over, which is how
// actors move), and that a transaction which was cut off is rolled back (Info). That a
// transaction was too large for one commit interests few (Debug). Locks may be
// held: a handler must not use the database.

// event logs msg about the database.
func (db *base) event(level slog.Level, msg string, args ...any) {
	ctx := context.Background()
	if db.log == nil || !db.log.Enabled(ctx, level) {
		return
	}
	args = append(args, "database", db.name)
	if db.actor != nil {
		args = append(args, "actor_id", db.actor.ID().String())
	}
	db.log.Log(ctx, level, msg, args...)
}

// fellBack: a transaction of so many pages takes SQLite's journal.
func (db *base) fellBack(pages int) {
	db.stats.fallbacks.Add(1)
	db.event(slog.LevelDebug, "vfs: a transaction is too large for one commit and takes the journal", "pages", pages)
}

// foundJournal: a journal was found that must be rolled back.
func (db *base) foundJournal() {
	db.stats.recoveries.Add(1)
	if db.failed.Load() != nil {
		return // it is left to the actor's next owner
	}
	db.event(slog.LevelInfo, "vfs: rolling back a transaction that was cut off")
}

// refusing: from now on every operation fails.
func (db *base) refusing(reason error) {
	db.meter.failed()
	if errors.Is(reason, actorstore.ErrFenced) {
		db.event(slog.LevelWarn, "vfs: the database refuses everything, the actor has another owner", "error", reason)
		return
	}
	db.event(slog.LevelError, "vfs: the database refuses everything until its actor is opened again", "error", reason)
}

// logPanic keeps the stack of a panic, which an error has no room for.
func (db *base) logPanic(p any) {
	db.log.Error("vfs: panic", slog.String("database", db.name), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
}
