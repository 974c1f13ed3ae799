package vfs

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
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
	text, err := h.pragma(name, value)
	h.tell(err, sqlite3.ExtendedErrorCode(sqlite3.ERROR))
	return text, err
}

func (h *handle) pragma(name, value string) (string, error) {
	if h.staged != nil && value != "" && (name == "journal_mode" || name == "locking_mode") {
		return "", fmt.Errorf("%w: PRAGMA %s within Update", ErrUnsupported, name)
	}
	if h.staged != nil && value != "" {
		h.keys.pragma(name, value)
	}
	switch name {
	case beginHint:
		h.wantWrite = true
		if h.logged { // there SQLite takes no lock that would ask
			if err := h.db.owned(h.ctx); err != nil {
				return "", h.sqliteError(err, sqlite3.IOERR_LOCK)
			}
		}
		return "", nil
	case "journal_mode":
		return h.journalMode(value)
	case statsPragma:
		if value != "" {
			return "", fmt.Errorf("%w: PRAGMA %s takes no value", ErrUnsupported, statsPragma)
		}
		return h.db.report(), nil
	case "locking_mode":
		if value != "" {
			h.exclusive = strings.EqualFold(value, "exclusive")
		}
	case "synchronous":
		h.setSync(value)
	}
	return "", sqlite3.NOTFOUND
}

// A keysWish is what the function of an Update wants of foreign keys. Within a transaction
// SQLite takes no notice of PRAGMA foreign_keys=OFF, and says nothing: a program that makes
// a table anew would lose the rows that refer to it.
//
// https://sqlite.org/pragma.html#pragma_foreign_keys
type keysWish struct{ off, deferred bool }

// pragma sees what PRAGMA name=value wants.
func (k *keysWish) pragma(name, value string) {
	switch name {
	case "foreign_keys":
		k.off = k.off || isOff(value)
	case "defer_foreign_keys":
		k.deferred = !isOff(value)
	}
}

// isOff says whether SQLite takes value for false.
func isOff(value string) bool {
	switch strings.ToLower(value) {
	case "off", "no", "false":
		return true
	}
	n, err := strconv.Atoi(value)
	return err == nil && n == 0
}

// errKeysOn is why an Update is rolled back that wants foreign keys off.
var errKeysOn = fmt.Errorf("%w: PRAGMA foreign_keys=OFF within Update, where SQLite takes no notice of it: to have keys checked at the end, use PRAGMA defer_foreign_keys=ON there (ON DELETE still acts); to switch them off, use a connection of your own, outside of Update (sql.DB.Conn)", ErrUnsupported)

// journalModes are the names of the modes, in the order in which SQLite compares
// them: it takes any beginning of a name for the name.
var journalModes = [...]string{"delete", "persist", "off", "truncate", "memory", "wal"}

// journalMode answers PRAGMA journal_mode. SQLite itself keeps silent where there is no
// shared memory for WAL, and leaves the mode as it is.
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
			if h.shm == nil && !h.exclusive {
				return "", fmt.Errorf("%w: journal_mode=WAL needs memory that connections share, which this platform doesn't have; locking_mode=EXCLUSIVE does without", ErrUnsupported)
			}
			mode = "delete" // what it is when it is WAL no more
		}
		h.mode = mode
		break
	}
	return "", sqlite3.NOTFOUND
}

// A syncLevel is a level of PRAGMA synchronous. SQLite itself shows a VFS hardly a
// difference between them: it asks for syncs that this one does not need.
//
// Below FULL a commit is applied, in order, and not waited for: a crash of the
// machine may lose the last ones, and damages nothing. So OFF is as safe as NORMAL.
//
// https://sqlite.org/pragma.html#pragma_synchronous
type syncLevel uint8

const (
	syncOff syncLevel = iota
	syncNormal
	syncFull // and EXTRA
)

// synchronous returns the level that SQLite goes by. In WAL mode go-sqlite3's build has
// another default.
//
// https://sqlite.org/compile.html#default_wal_synchronous
func (h *handle) synchronous() syncLevel {
	if h.logged && !h.syncSet {
		return syncNormal
	}
	return h.sync
}

// setSync follows PRAGMA synchronous. SQLite refuses it within a transaction. What is
// no name of a level counts as FULL here, whatever SQLite makes of it.
func (h *handle) setSync(value string) {
	// A VFS above this one may keep from it whose connection it is.
	if c, ok := h.conn.(*sqlite3.Conn); value == "" || ok && !c.GetAutocommit() || !ok && h.level > sqlitevfs.LOCK_NONE {
		return
	}
	h.syncSet = true
	switch strings.ToLower(value) {
	case "0", "off", "no", "false":
		h.sync = syncOff
	case "1", "normal", "on", "yes", "true":
		h.sync = syncNormal
	default:
		h.sync = syncFull
	}
}
