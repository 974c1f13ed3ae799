package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/greenroomdb/greenroom/internal/sqlrun"
	"github.com/ncruces/go-sqlite3"
)

// A source is the database of a file, in one state: from the moment it is opened
// until it is closed, what it reads doesn't change, so what was checked is what is
// copied. Without a write-ahead log that makes programs wait which write to the file.
type source struct {
	name string // as the user wrote it
	conn *sqlite3.Conn
	size int64  // of the database in bytes: all its pages
	dir  string // a temporary folder with a copy, "" without one
}

// openSource opens the database in the file of that name without changing it. What
// only its owner could clean up in place (an unfinished transaction, a log that other
// users can't open) is cleaned up in a copy.
func openSource(ctx context.Context, name string, hint io.Writer) (*source, error) {
	if err := mayRead(name); err != nil {
		return nil, err
	}
	s := &source{name: name}
	path, err := filepath.EvalSymlinks(name) // its companions lie beside the file itself
	if err == nil {
		err = s.begin(ctx, path, sqlite3.OPEN_READONLY)
	}
	if companion := needsCopy(path, err); companion != "" {
		err = s.openCopy(ctx, path, companion, hint)
	}
	if err == nil {
		err = s.complete(path)
	}
	switch {
	case err == nil:
		return s, nil
	case ctx.Err() != nil:
		err = ctx.Err()
	default:
		err = describeSource(name, path, err)
	}
	return nil, errors.Join(err, s.Close())
}

// mayRead refuses anything but a regular file that isn't empty. It doesn't open a pipe
// to find that out.
func mayRead(name string) error {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return say(err, "there is no file %s", name)
	case err != nil:
		return err
	case info.IsDir():
		return say(nil, "%s is a folder, not an SQLite database", name)
	case !info.Mode().IsRegular():
		return say(nil, "%s is not a regular file", name)
	case info.Size() == 0:
		// For SQLite that is an empty database, which is hardly meant to replace another one.
		return say(nil, "the file %s is empty", name)
	}
	return nil
}

// begin opens the database at path, and keeps the state that it has.
func (s *source) begin(ctx context.Context, path string, flags sqlite3.OpenFlag) error {
	c, err := openFile(path, flags)
	if err != nil {
		return err
	}
	if err := beginRead(ctx, c); err != nil {
		return errors.Join(err, c.Close())
	}
	s.conn = c
	return nil
}

// beginRead begins a transaction that lasts until c is closed.
func beginRead(ctx context.Context, c *sqlite3.Conn) error {
	defer c.SetInterrupt(c.SetInterrupt(ctx)) // it may have to wait
	if err := c.BusyTimeout(busyPatience); err != nil {
		return err
	}
	// BEGIN alone takes no lock.
	return c.Exec("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1")
}

// complete looks whether all pages are there. SQLite takes for zeros what is
// missing of the last one. With a log, pages may be there that the file hasn't yet.
func (s *source) complete(path string) error {
	size, err := sqlrun.PageSize(s.conn)
	if err != nil {
		return err
	}
	count, err := sqlrun.PragmaInt(s.conn, "page_count")
	if err != nil {
		return err
	}
	s.size = count * size
	if count == 0 { // its first transaction was rolled back
		return say(nil, "the database in %s is empty", s.name)
	}
	mode, err := sqlrun.Pragma(s.conn, "journal_mode")
	if err != nil || mode == "wal" || s.dir != "" {
		return err
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() < s.size {
		err = cutShort(count, size, info.Size())
	}
	return err
}

// Close closes the database and removes the copy. A second Close returns nil.
func (s *source) Close() error {
	conn, dir := s.conn, s.dir
	s.conn, s.dir = nil, ""
	return errors.Join(conn.Close(), os.RemoveAll(dir)) // which take nil, and ""
}

// tempDir returns a folder that Close removes.
func (s *source) tempDir() (_ string, err error) {
	if s.dir == "" {
		s.dir, err = os.MkdirTemp("", "greenroom-import-")
	}
	return s.dir, err
}

// check refuses a damaged database, before a good one is replaced by it: a backup
// copies pages without looking into them. It reads all of the file. SQLite can't see
// damage within a value.
//
// https://sqlite.org/pragma.html#pragma_quick_check
func (s *source) check(ctx context.Context, hint io.Writer) error {
	defer showHint(hint, "checking "+visibleText(filepath.Base(s.name))+" …")()
	defer s.conn.SetInterrupt(s.conn.SetInterrupt(ctx))
	// What rows may hold is up to the program that wrote them, perhaps with functions
	// that are not known here.
	err := s.conn.Exec("PRAGMA ignore_check_constraints=ON")
	var found string
	if err == nil {
		found, err = sqlrun.Pragma(s.conn, "quick_check(1)")
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil && found == "ok":
		return nil
	case err == nil:
		found = strings.TrimPrefix(found, "*** in database main ***\n")
		err = say(sqlite3.CORRUPT, "%s", found)
	}
	return sourceError(s.name, err)
}

// rollbackMode turns a source in WAL mode into a copy in rollback mode. A backup
// copies page 1 with the mode in it, and the actor's database would be in WAL mode
// after it.
//
// https://sqlite.org/fileformat2.html#file_format_version_numbers
func (s *source) rollbackMode(ctx context.Context) error {
	mode, err := sqlrun.Pragma(s.conn, "journal_mode")
	if err != nil || mode != "wal" {
		return err
	}
	dir, err := s.tempDir()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "plain.db")
	if err = copyDatabase(ctx, s.conn, fileURI(path, "synchronous(off)"), nil); err == nil {
		err = leaveWAL(path)
	}
	if err != nil {
		return err
	}
	wal := s.conn
	s.conn = nil
	return errors.Join(wal.Close(), s.begin(ctx, path, sqlite3.OPEN_READONLY))
}

// leaveWAL gives the copy at path a rollback journal.
func leaveWAL(path string) error {
	c, err := openFile(path, sqlite3.OPEN_READWRITE, "synchronous(off)")
	if err != nil {
		return err
	}
	mode, err := sqlrun.Pragma(c, "journal_mode=DELETE")
	if err == nil && mode != "delete" {
		err = fmt.Errorf("the copy is still in journal mode %s", mode)
	}
	return errors.Join(err, c.Close())
}
