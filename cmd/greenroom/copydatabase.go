package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/internal/sqlrun"
	"github.com/ncruces/go-sqlite3"
)

// busyPatience is how long another program may keep a database file locked.
const busyPatience = 10 * time.Second

// copyDatabase is sqlrun.Copy with a bar that is drawn on bar unless that is nil.
func copyDatabase(ctx context.Context, src *sqlite3.Conn, target string, bar io.Writer) error {
	p := newProgress(bar)
	defer p.end()
	return sqlrun.Copy(ctx, src, target, p.show)
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
