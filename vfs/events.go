package vfs

import (
	"context"
	"errors"
	"log/slog"

	"github.com/greenroomdb/greenroom/actorstore"
)

// What a database says to Options.Logger. Errors reach the caller of the statement
// that met them, so only what outlives a statement is worth a line: that the database
// refuses everything (Error; Warn when another owner took the actor over, which is how
// actors move), and that a transaction which was cut off is rolled back (Info). That a
// transaction was too large for one commit is no event for most (Debug). Locks may be
// held: a handler must not use the database.

// event logs msg about the database.
func (db *database) event(level slog.Level, msg string, args ...any) {
	ctx := context.Background()
	if db.log == nil || !db.log.Enabled(ctx, level) {
		return
	}
	args = append(args, "database", db.name)
	if db.actor != nil {
		args = append(args, "actor", db.actor.ID().String())
	}
	db.log.Log(ctx, level, msg, args...)
}

// fellBack: a transaction of so many pages takes SQLite's journal.
func (db *database) fellBack() {
	db.stats.fallbacks.Add(1)
	db.event(slog.LevelDebug, "vfs: a transaction is too large for one commit and takes the journal", "pages", db.main.Pending())
}

// leftBehind: a journal was found that must be rolled back.
func (db *database) leftBehind() {
	db.stats.recoveries.Add(1)
	if db.failed.Load() != nil {
		return // it is left to who opens the actor next
	}
	db.event(slog.LevelInfo, "vfs: rolling back a transaction that was cut off")
}

// refusing: from now on every operation fails.
func (db *database) refusing(reason error) {
	db.meter.failed()
	if errors.Is(reason, actorstore.ErrFenced) {
		db.event(slog.LevelWarn, "vfs: the database refuses everything, the actor has another owner", "error", reason)
		return
	}
	db.event(slog.LevelError, "vfs: the database refuses everything until its actor is opened again", "error", reason)
}
