package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// backupPages is how many pages are copied between two looks at the context and
// at the progress bar.
const backupPages = 256

// busyPatience is how long another program may keep a database file locked.
const busyPatience = 10 * time.Second

// copyDatabase replaces the database at target, a URI, by that of src, in one
// transaction: until the last page is there, what was there before is. The bar is
// drawn on bar unless that is nil.
//
// https://sqlite.org/backup.html
func copyDatabase(ctx context.Context, src *sqlite3.Conn, target string, bar io.Writer) error {
	size, err := pageSize(src)
	if err != nil {
		return err
	}
	b, err := src.BackupInit("main", target)
	if err != nil {
		return err
	}
	p := newProgress(bar)
	for done := false; !done && err == nil; {
		if err = ctx.Err(); err != nil {
			break
		}
		if done, err = b.Step(backupPages); err == nil {
			// Pages may be added while they are copied.
			p.show(int64(b.PageCount()-b.Remaining())*size, int64(b.PageCount())*size)
		}
	}
	p.end()
	// Close undoes what is not done. Its error is the one of Step, again.
	if cerr := b.Close(); err == nil {
		err = cerr
	}
	return err
}

// pageSize reads a database's page size, and with it its schema, so that a file
// that is none is found out here.
func pageSize(c *sqlite3.Conn) (int64, error) {
	if err := c.Exec("SELECT 1 FROM sqlite_schema LIMIT 1"); err != nil {
		return 0, err
	}
	return pragmaInt(c, "page_size")
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

// pragmaInt is pragma for a number.
func pragmaInt(c *sqlite3.Conn, p string) (int64, error) {
	value, err := pragma(c, p)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(value, 10, 64)
}

// fileURI returns the URI of a database file, with pragmas to run when it is
// opened, as "synchronous(off)".
//
// https://sqlite.org/uri.html
func fileURI(path string, pragmas ...string) string {
	if abs, err := filepath.Abs(path); err == nil { // else SQLite says what is wrong
		path = abs
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: url.Values{"_pragma": pragmas}.Encode()}
	return u.String()
}

// openFile opens the database file at path.
func openFile(path string, flags sqlite3.OpenFlag, pragmas ...string) (*sqlite3.Conn, error) {
	return sqlite3.OpenFlags(fileURI(path, pragmas...), flags|sqlite3.OPEN_URI)
}

// A progress is a bar on a terminal, or nothing.
type progress struct {
	w     io.Writer // nil draws nothing
	drawn time.Time // the last time
}

// newProgress returns a bar on w, and one that isn't drawn when w is nil.
func newProgress(w io.Writer) *progress { return &progress{w: w} }

// clearLine goes to the beginning of the line on a terminal, and erases it.
const clearLine = "\r\x1b[K"

// show draws done of total bytes, ten times a second at most. A bar that can't be drawn
// stops nothing.
func (p *progress) show(done, total int64) {
	if p.w == nil || total <= 0 || time.Since(p.drawn) < 100*time.Millisecond {
		return
	}
	const width = 40
	part := float64(min(done, total)) / float64(total)
	full := int(part * width)
	_, err := fmt.Fprintf(p.w, "%s%3.0f%% [%s%s] %.1f of %.1f MB", clearLine, 100*part,
		strings.Repeat("=", full), strings.Repeat(" ", width-full), float64(done)/1e6, float64(total)/1e6)
	if p.drawn = time.Now(); err != nil {
		p.w = nil
	}
}

// end takes the bar away.
func (p *progress) end() {
	if p.w != nil && !p.drawn.IsZero() {
		_, _ = fmt.Fprint(p.w, clearLine) // nothing depends on it
	}
}

// showHint writes what takes a while to a terminal, until the function that it
// returns is called. A hint that can't be written stops nothing; w may be nil.
func showHint(w io.Writer, text string) (hide func()) {
	if w == nil {
		return func() {}
	}
	if _, err := fmt.Fprint(w, text); err != nil {
		return func() {}
	}
	return func() { _, _ = fmt.Fprint(w, clearLine) }
}
