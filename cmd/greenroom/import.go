package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/vfs"
)

func newImport(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "import STORE ACTOR FILE.db",
		Short: "Make an SQLite file the actor's database",
		Long: `Copy the SQLite database FILE.db, with what its write-ahead log holds, over the
actor's database, in one transaction: on any failure the old one stays as it is.
FILE.db may be in use meanwhile, and is not changed; without a write-ahead log, who
writes to it has to wait. An unfinished transaction beside it is rolled back in a
temporary copy. It is checked first: a damaged one is refused.`,
		Example: `  greenroom import data music chinook.sqlite`,
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			return importFile(cmd.Context(), e, args[0], args[1], args[2])
		},
	}
}

func importFile(ctx context.Context, e *env, url, actor, file string) (err error) {
	// Before the store is touched, or made: a slip in the name leaves nothing.
	src, err := openSource(ctx, file, e.progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if limit := e.limits.OrDefault().Storage; src.size > limit {
		return src.tooLarge(actor, &actorstore.QuotaError{Wanted: src.size, Limit: limit})
	}
	if err := src.check(ctx, e.progress); err != nil {
		return err
	}
	if err := src.rollbackMode(ctx); err != nil {
		return sourceError(file, err)
	}
	to := target{url: url, actor: actor, create: true, env: e, limits: e.limits}
	err = ownDatabase(ctx, to, func(db *sql.DB) error {
		return onConn(ctx, db, func(c sqlrun.Conn) error {
			return src.copyError(actor, sqlrun.WithCause(copyDatabase(ctx, src.conn, c.DSN(), e.progress), c.Cause))
		})
	})
	if !elsewhere(err) {
		return err
	}
	return to.ask(ctx, err, func(c *admin.Client, _ *storeurl.Store, create bool) error {
		return src.copyError(actor, src.upload(ctx, e, func(f io.Reader) error { return c.ImportDatabase(ctx, actor, create, f) }))
	})
}

// upload gives the database of s to put, as a plain file.
func (s *source) upload(ctx context.Context, e *env, put func(io.Reader) error) error {
	dir, err := s.tempDir()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "upload.db")
	if err := copyDatabase(ctx, s.conn, fileURI(path, "journal_mode(off)", "synchronous(off)"), e.progress); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(put(f), f.Close())
}

// copyError says why the database of s could not be copied to the actor.
func (s *source) copyError(actor string, err error) error {
	var quota *actorstore.QuotaError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &quota):
		return s.tooLarge(actor, quota)
	case vfs.Cause(err) != nil || errors.Is(err, actorstore.ErrCorrupt) || errors.As(err, new(*admin.Error)):
		return fmt.Errorf("actor %s: %w", actor, trimmed(err))
	}
	return sourceError(s.name, err)
}

// tooLarge says that the database of s does not fit into the actor.
func (s *source) tooLarge(actor string, quota *actorstore.QuotaError) error {
	if quota.Used == 0 {
		return say(quota, "%s does not fit into the actor %s: it has %d bytes, and an actor may store %d",
			s.name, actor, quota.Wanted, quota.Limit)
	}
	return say(quota, "%s (%d bytes) does not fit into the actor %s: with what was copied of it and the undo journal "+
		"of what it replaces, the actor had %d bytes, and would have needed %d of the %d that it may store; nothing is changed",
		s.name, s.size, actor, quota.Used, quota.Wanted, quota.Limit)
}
