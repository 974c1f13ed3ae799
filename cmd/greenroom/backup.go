package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/schollz/progressbar/v3"
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
func fileURI(path string, pragmas ...string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(abs)}
	if len(pragmas) > 0 {
		u.RawQuery = url.Values{"_pragma": pragmas}.Encode()
	}
	return u.String(), nil
}

// A progress is a bar on a terminal, or nothing.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress returns a bar on w, and one that isn't drawn when w is nil.
func newProgress(w io.Writer) *progress {
	if w == nil {
		return &progress{}
	}
	return &progress{progressbar.NewOptions64(1,
		progressbar.OptionSetWriter(w),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

// show draws done of total bytes. A bar that can't be drawn stops nothing.
func (p *progress) show(done, total int64) {
	if p.bar == nil || total == 0 {
		return
	}
	p.bar.ChangeMax64(total)
	if err := p.bar.Set64(done); err != nil {
		p.bar = nil
	}
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar != nil && p.bar.Clear() != nil {
		p.bar = nil
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
	return func() { _, _ = fmt.Fprint(w, "\r\x1b[K") } // to the end of the line
}

// closeConn closes c; its error counts when there is no other.
func closeConn(c *sqlite3.Conn, err *error) {
	if cerr := c.Close(); *err == nil {
		*err = cerr
	}
}
