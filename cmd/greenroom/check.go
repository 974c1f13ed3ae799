package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// checkSource refuses a damaged database, before a good one is replaced by it: a
// backup copies pages and looks into none. It reads all of the file. Damage within
// a value is none that SQLite could see.
//
// https://sqlite.org/pragma.html#pragma_quick_check
func checkSource(ctx context.Context, src *sqlite3.Conn, file string, hint io.Writer) error {
	defer showHint(hint, "checking "+visible(filepath.Base(file))+" …")()
	defer src.SetInterrupt(src.SetInterrupt(ctx))
	// What rows may hold is the business of who wrote them, perhaps with functions
	// that are not known here.
	err := src.Exec("PRAGMA ignore_check_constraints=ON")
	var found string
	if err == nil {
		found, err = pragma(src, "quick_check(1)")
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, sqlite3.CORRUPT):
		return damaged(file, err)
	case err != nil:
		return sourceError(file, err)
	case found == "ok":
		return nil
	}
	found = strings.TrimPrefix(found, "*** in database main ***\n")
	return damaged(file, say(sqlite3.CORRUPT, "%s", visible(found)))
}

// damaged says of a file, on which SQLite gave up with err, that it is damaged.
func damaged(file string, err error) error {
	return say(err, "%s is damaged, so it is not imported: %v", file, trimmed(err))
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
