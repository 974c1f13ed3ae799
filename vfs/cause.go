package vfs

import (
	"errors"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"
)

// SQLite hands a code from the VFS to its user, and nothing else; go-sqlite3 keeps the
// error behind some codes, until SQLite calls the VFS again. So every file remembers
// what it told SQLite, and the connections of a pool put that behind the code when a
// statement fails. A statement that succeeds pays for none of it.

// A told is an error that SQLite was told, as a code.
type told struct {
	err  error
	code sqlite3.ExtendedErrorCode
	// first is the first one of the same statement: SQLite goes on after an error, to
	// roll back, and what it meets then is not why the statement failed.
	first *told
}

// A memory of what SQLite was told by the files of one connection. The journal's errors
// reach it from wherever the journal is looked at.
type toldMemory struct {
	last atomic.Pointer[told]
	// refused is why a page was not read; see rows.Next.
	refused error
}

// tell remembers err, of which SQLite gets code.
func (m *toldMemory) tell(err error, code sqlite3.ExtendedErrorCode) {
	next := &told{err: err, code: code}
	if p := m.last.Load(); p != nil {
		if next.first = p.first; next.first == nil {
			next.first = p
		}
	}
	m.last.Store(next)
}

// forget begins a new statement.
func (m *toldMemory) forget() {
	if m.last.Load() != nil {
		m.last.Store(nil)
	}
}

// recall returns the error that SQLite gave back as code, nil if none fits.
func (m *toldMemory) recall(code sqlite3.ExtendedErrorCode) error {
	p := m.last.Load()
	switch {
	case p == nil:
		return nil
	case p.first != nil && p.first.becomes(code):
		return p.first.err
	case p.becomes(code):
		return p.err
	}
	return nil
}

// becomes says whether SQLite gives the code that it was told back as code. It does so
// with all codes but one; when it was reading the schema, it drops what extends them.
//
// https://sqlite.org/rescode.html#ioerr_corruptfs
func (t *told) becomes(code sqlite3.ExtendedErrorCode) bool {
	primary := sqlite3.ExtendedErrorCode(code.Code())
	return t.code == code || code == primary && t.code.Code() == code.Code() ||
		t.code == sqlite3.IOERR_CORRUPTFS && code.Code() == sqlite3.CORRUPT
}

// unanswered is the error of a query that SQLite has answered although a read of it was
// refused with cause: PRAGMA integrity_check takes a page that it can't read for a
// damaged one, and so do the functions that are like it. A statement that writes is left
// alone, and so is COMMIT: they may have landed, and a checkpoint that follows them may
// be refused.
func unanswered(cause error) error {
	return &causedError{sqliteCode(cause, sqlite3.IOERR_READ), cause}
}

// An interruptedError is a causedError whose reason is the context's: Cause knows none.
type interruptedError struct{ causedError }

// errCutOff is why a view refuses to read, in which SQLite sees an attempt to write.
var errCutOff = errors.New("vfs: parts of a transaction are stored that is under way or was cut off, and only the owner of the actor can roll it back")

// Damaged says whether err is SQLite's word that a database isn't one, or isn't what a statement takes it for, as opposed to a failure to read it.
func Damaged(err error) bool {
	return errors.Is(err, sqlite3.CORRUPT) || errors.Is(err, sqlite3.NOTADB) || errors.Is(err, sqlite3.ERROR)
}
