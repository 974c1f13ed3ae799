package sqlrun

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strconv"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/ncruces/go-sqlite3"
)

// A Source is the database of a file, for Session.Replace.
type Source struct{ conn *sqlite3.Conn }

// OpenSource opens the database in a file, and reads all of it, so that a damaged one is an error. The caller closes it.
func OpenSource(file string) (*Source, error) {
	uri := url.URL{Scheme: "file", Path: filepath.ToSlash(file)}
	c, err := sqlite3.OpenFlags(uri.String(), sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
	if err != nil {
		return nil, err
	}
	found, err := Pragma(c, "quick_check(1)")
	if err == nil && found == "ok" {
		return &Source{c}, nil
	}
	return nil, errors.Join(errkind.Say(errors.Join(err, sqlite3.CORRUPT), "the file is damaged, or isn't an SQLite database: %s", found), c.Close())
}

// Close closes the file.
func (s *Source) Close() error { return s.conn.Close() }

// copyPages is how many pages are copied between two looks at the context.
const copyPages = 256

// Copy replaces the database at target, a URI, by that of src, in one
// transaction: until the last page is there, what was there before is. show is told how many bytes of how many are copied.
//
// https://sqlite.org/backup.html
func Copy(ctx context.Context, src *sqlite3.Conn, target string, show func(done, total int64)) error {
	size, err := PageSize(src)
	if err != nil {
		return err
	}
	b, err := src.BackupInit("main", target)
	if err != nil {
		return err
	}
	for done := false; !done && err == nil; {
		if err = ctx.Err(); err != nil {
			break
		}
		if done, err = b.Step(copyPages); err == nil {
			// Pages may be added while they are copied.
			show(int64(b.PageCount()-b.Remaining())*size, int64(b.PageCount())*size)
		}
	}
	// Close undoes what is not done. Its error is the one of Step, again.
	if cerr := b.Close(); err == nil {
		err = cerr
	}
	return err
}

// PageSize reads a database's page size, and with it its schema, so that a file
// that isn't a database is found out here.
func PageSize(c *sqlite3.Conn) (int64, error) {
	if err := c.Exec("SELECT 1 FROM sqlite_schema LIMIT 1"); err != nil {
		return 0, err
	}
	return PragmaInt(c, "page_size")
}

// Pragma runs a PRAGMA and returns its first value.
func Pragma(c *sqlite3.Conn, p string) (string, error) {
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

// PragmaInt is Pragma for a number.
func PragmaInt(c *sqlite3.Conn, p string) (int64, error) {
	value, err := Pragma(c, p)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(value, 10, 64)
}
