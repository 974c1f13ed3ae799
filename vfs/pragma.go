package vfs

import (
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// beginHint is the PRAGMA by which SQLite tells a VFS, before it takes SHARED,
// that a transaction begins as BEGIN IMMEDIATE or BEGIN EXCLUSIVE.
const beginHint = "experimental_pragma_20251114"

// Pragma sees every PRAGMA that names this database before SQLite does. It
// refuses what would make a promise of this package untrue; the text becomes
// the statement's error.
//
// https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlpragma
func (h *handle) Pragma(name, value string) (string, error) {
	switch name {
	case beginHint:
		h.wantWrite = true
		return "", nil
	case "journal_mode":
		if strings.EqualFold(value, "off") {
			return "", fmt.Errorf("%w: journal_mode=OFF can't undo a transaction whose pages are already stored", ErrUnsupported)
		}
	}
	return "", sqlite3.NOTFOUND
}
