package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/vfs"
)

func newImport(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "import STORE ACTOR FILE.db",
		Short: "Make an SQLite file the actor's database",
		Long: `Copy the SQLite database FILE.db, with what its write-ahead log holds, over the
actor's database, in one transaction: on any failure the old one stays as it is.
FILE.db may be in use meanwhile, and is not changed. It is checked first: a damaged
one is refused.`,
		Example: `  greenroom import data music chinook.sqlite`,
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			return importFile(cmd.Context(), e, args[0], args[1], args[2])
		},
	}
}

func importFile(ctx context.Context, e *env, url, actor, file string) error {
	// Before the store is touched, or made: a slip in the name leaves nothing.
	return withSource(ctx, e, file, func(src *sqlite3.Conn) error {
		return ownDatabase(ctx, url, actor, func(db *vfs.DB) error {
			err := copyDatabase(ctx, src, db.DSN(), e.progress)
			return sourceError(file, withCause(err, db.Cause))
		})
	})
}

// withSource runs fn with the database in file, which is sound, in rollback mode.
func withSource(ctx context.Context, e *env, file string, fn func(*sqlite3.Conn) error) (err error) {
	src, err := openSource(file)
	if errors.Is(err, sqlite3.CORRUPT) {
		return damaged(file, err)
	}
	if err != nil {
		return sourceError(file, err)
	}
	defer closeConn(src, &err)
	if err := checkSource(ctx, src, file, e.progress); err != nil {
		return err
	}
	mode, err := pragma(src, "journal_mode")
	if err != nil {
		return sourceError(file, err)
	}
	if mode != "wal" {
		return fn(src)
	}
	dir, err := os.MkdirTemp("", "greenroom-import-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	plain, err := unWAL(ctx, src, filepath.Join(dir, "plain.db"))
	if err != nil {
		return sourceError(file, err)
	}
	defer closeConn(plain, &err)
	return fn(plain)
}

// closeConn closes c; its error counts when there is no other.
func closeConn(c *sqlite3.Conn, err *error) {
	if cerr := c.Close(); *err == nil {
		*err = cerr
	}
}

// openSource opens a file to read the database in it, and looks whether it is one.
func openSource(file string) (*sqlite3.Conn, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case info.Size() == 0:
		// For SQLite that is a database with nothing in it. Nobody means to
		// replace a database by that.
		return nil, errors.New("the file is empty")
	}
	uri, err := fileURI(file)
	if err != nil {
		return nil, err
	}
	c, err := sqlite3.OpenFlags(uri, sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
	if err != nil {
		return nil, err
	}
	err = c.BusyTimeout(busyPatience)
	if err == nil {
		_, err = pageSize(c)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// pragma runs a PRAGMA and returns its first value.
func pragma(c *sqlite3.Conn, p string) (string, error) {
	stmt, _, err := c.Prepare("PRAGMA " + p)
	if err != nil {
		return "", err
	}
	var value string
	if stmt.Step() {
		value = stmt.ColumnText(0)
	}
	return value, errors.Join(stmt.Err(), stmt.Close())
}

// unWAL copies a database in WAL mode to a file and returns a connection to that,
// which is in rollback mode. A backup copies page 1 with the mode in it, and the
// actor's database would be in WAL mode after it.
//
// https://sqlite.org/fileformat2.html#file_format_version_numbers
func unWAL(ctx context.Context, src *sqlite3.Conn, file string) (_ *sqlite3.Conn, err error) {
	uri, err := fileURI(file, "synchronous(off)")
	if err != nil {
		return nil, err
	}
	if err := copyDatabase(ctx, src, uri, nil); err != nil {
		return nil, err
	}
	c, err := sqlite3.Open(uri)
	if err != nil {
		return nil, err
	}
	mode, err := pragma(c, "journal_mode=DELETE")
	if err == nil && mode != "delete" {
		err = fmt.Errorf("the copy is still in journal mode %s", mode)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// sourceError says what is wrong with a file that is to be read as a database.
func sourceError(file string, err error) error {
	var code sqlite3.ErrorCode
	var extended sqlite3.ExtendedErrorCode
	errors.As(err, &code)
	errors.As(err, &extended)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist) && code == 0:
		return say(err, "there is no file %s", file)
	case code == sqlite3.NOTADB:
		return say(err, "%s is not an SQLite database", file)
	case extended == sqlite3.READONLY_ROLLBACK || extended == sqlite3.READONLY_RECOVERY:
		return say(err, "%s has an unfinished transaction beside it: open it once with write access, so that it is rolled back", file)
	case extended == sqlite3.ExtendedErrorCode(sqlite3.READONLY):
		return say(err, "the database can't be replaced by %s: it is in WAL mode and has another page size", file)
	case code == sqlite3.BUSY:
		return say(err, "%s is locked by another program", file)
	}
	return fmt.Errorf("import of %s: %w", file, trimmed(err))
}

// trimmed is err without the library's name in front.
func trimmed(err error) error {
	if err == nil {
		return nil
	}
	if text, ok := strings.CutPrefix(err.Error(), "sqlite3: "); ok {
		return say(err, "%s", text)
	}
	return err
}
