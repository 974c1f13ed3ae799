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
		return h.journalMode(value)
	}
	return "", sqlite3.NOTFOUND
}

// journalModes are the names of the modes, in the order in which SQLite compares
// them: it takes any beginning of a name for the name.
var journalModes = [...]string{"delete", "persist", "off", "truncate", "memory", "wal"}

// journalMode answers PRAGMA journal_mode. WAL leaves the mode as it is, as SQLite
// does itself where there is no shared memory; with locking_mode=EXCLUSIVE it would
// go ahead, and write a header that asks for a WAL.
func (h *handle) journalMode(value string) (string, error) {
	if value == "" {
		return "", sqlite3.NOTFOUND
	}
	for _, mode := range journalModes {
		if !strings.HasPrefix(mode, strings.ToLower(value)) {
			continue
		}
		switch mode {
		case "off":
			return "", fmt.Errorf("%w: journal_mode=OFF can't undo a transaction that was stored in parts", ErrUnsupported)
		case "wal":
			return h.mode, nil
		}
		h.mode = mode
		break
	}
	return "", sqlite3.NOTFOUND
}
