package vfs

import (
	"fmt"
	"strconv"
	"strings"
)

// beginHint is the PRAGMA by which SQLite tells a VFS, before it takes SHARED,
// that a transaction begins as BEGIN IMMEDIATE or BEGIN EXCLUSIVE.
const beginHint = "experimental_pragma_20251114"

// settings are what the PRAGMAs of a connection said.
type settings struct {
	mode      string // journal_mode
	exclusive bool   // locking_mode
	sync      syncLevel
	syncSet   bool     // by a PRAGMA
	keys      keysWish // of the function of the Update that is under way

	tells     bool // PRAGMAs are seen: no VFS on top keeps them for itself
	set       bool // one has left something on the connection since it was set up, or may have
	queryOnly bool // PRAGMA query_only, since then
}

// A pragmaContext is what must be known of a connection to judge a PRAGMA.
type pragmaContext struct {
	within bool // an Update is under way
	inTx   bool // a transaction is, as far as that is known
	shared bool // there is memory that connections share
}

// pragma follows PRAGMA name=value, and returns an error if that would make a promise of this package untrue.
func (s *settings) pragma(c pragmaContext, name, value string) error {
	s.tells = true
	s.set = s.set || lasting(name, value)
	if name == "query_only" && value != "" {
		s.queryOnly = value == "on"
	}
	if value == "" {
		return nil
	}
	if c.within {
		if name == "journal_mode" || name == "locking_mode" {
			return fmt.Errorf("%w: PRAGMA %s within Update", ErrUnsupported, name)
		}
		s.keys.pragma(name, value)
	}
	switch name {
	case "journal_mode":
		return s.journalMode(value, c.shared)
	case "locking_mode":
		s.exclusive = strings.EqualFold(value, "exclusive")
	case "synchronous":
		if !c.inTx { // where SQLite refuses it
			s.setSync(value)
		}
	}
	return nil
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

// journalMode follows PRAGMA journal_mode. On a platform without shared memory for WAL, SQLite
// itself would leave the mode as it is and report no error.
func (s *settings) journalMode(value string, shared bool) error {
	for _, mode := range journalModes {
		if !strings.HasPrefix(mode, strings.ToLower(value)) {
			continue
		}
		switch mode {
		case "off":
			return fmt.Errorf("%w: journal_mode=OFF can't undo a transaction that was stored in parts", ErrUnsupported)
		case "wal":
			if !shared && !s.exclusive {
				return fmt.Errorf("%w: journal_mode=WAL needs memory that connections share, which this platform doesn't have; locking_mode=EXCLUSIVE does without", ErrUnsupported)
			}
			mode = "delete" // what it is when it is WAL no more
		}
		s.mode = mode
		break
	}
	return nil
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

// synchronous returns the level that SQLite goes by, in WAL mode if logged says so. There go-sqlite3's build has
// another default.
//
// https://sqlite.org/compile.html#default_wal_synchronous
func (s *settings) synchronous(logged bool) syncLevel {
	if logged && !s.syncSet {
		return syncNormal
	}
	return s.sync
}

// setSync follows PRAGMA synchronous. An unknown level counts as FULL, whatever SQLite makes of it.
func (s *settings) setSync(value string) {
	s.syncSet = true
	switch strings.ToLower(value) {
	case "0", "off", "no", "false":
		s.sync = syncOff
	case "1", "normal", "on", "yes", "true":
		s.sync = syncNormal
	default:
		s.sync = syncFull
	}
}
