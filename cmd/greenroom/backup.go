package main

import (
	"context"
	"errors"
	"io"
	"net/url"
	"path/filepath"
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
	stmt, _, err := c.Prepare("PRAGMA page_size")
	if err != nil {
		return 0, err
	}
	var size int64
	if stmt.Step() {
		size = stmt.ColumnInt64(0)
	}
	return size, errors.Join(stmt.Err(), stmt.Close())
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
