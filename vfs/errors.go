package vfs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// Sentinels of this package. What SQLite sees of them, and of the errors of the
// packages below, is decided by sqliteError alone.
var (
	// ErrName: a database name that is empty, too long, or ends like one of
	// SQLite's companion files ("-journal", "-wal", "-shm").
	ErrName = errors.New("vfs: bad database name")
	// ErrMounted: the name is already taken in this VFS, or the actor's database is
	// mounted already, by this VFS or another one, or has a pool.
	ErrMounted = errkind.New("vfs: name is already mounted", errkind.ErrInUse)
	// ErrNotMounted: no actor is mounted under the name.
	ErrNotMounted = errkind.New("vfs: name is not mounted", errkind.ErrNotFound)
	// ErrBusy: the database still has open connections.
	ErrBusy = errkind.New("vfs: database has open connections", errkind.ErrInUse)
	// errRegistered: another VFS has the name that SQLite should know this one by.
	errRegistered = errors.New("vfs: VFS name is already registered")
	// ErrUnsupported: a file or mode of SQLite that this VFS refuses; the error
	// says which and why.
	ErrUnsupported = errkind.New("vfs: unsupported", errkind.ErrUnsupported)
	// ErrTxOver: the transaction of DB.Update had ended before its function
	// returned, so that nothing of it was committed by Update.
	ErrTxOver = errkind.New("vfs: the transaction is over already", errkind.ErrClosed)
	// ErrSnapshotTooOld: a transaction has read a state that was replaced longer ago
	// than Options.MaxSnapshotAge, or that Options.MaxSnapshots has no room for, and
	// which is not kept any more. It can read no more pages; roll back and begin
	// again. To SQLite the database is locked (SQLITE_BUSY_TIMEOUT).
	ErrSnapshotTooOld = errkind.New("vfs: snapshot too old", errkind.ErrSnapshotTooOld)
	// ErrNoMemory: SQLite has used up the memory of one connection, in a statement that
	// needs too much. The connection is closed, its transaction rolled back, and the
	// pool makes another one. SQLite's code is SQLITE_NOMEM.
	ErrNoMemory = errkind.New("vfs: the connection has used up its memory, and is closed", errkind.ErrTooLarge)
	// ErrTooDeep: a statement is nested more deeply than SQLite's stack of 64 KiB allows:
	// some 500 NOTs within each other, or 250 views or common table expressions that use
	// each other. The connection is closed, its transaction rolled back, and the pool makes
	// another one. Most such statements get an error of SQLite's, and no more happens.
	ErrTooDeep = errkind.New("vfs: the statement is nested too deeply for SQLite, and the connection is closed", errkind.ErrTooLarge)
	// ErrTempFull: a statement needed more room for temporary files than
	// Options.TempBytes. To SQLite the disk is full (SQLITE_FULL).
	ErrTempFull = errkind.New("vfs: no room for temporary files", errkind.ErrTooLarge)
	// ErrFailed: a write failed or its outcome is in doubt, so the database
	// refuses everything until its actor is opened again. It wraps the cause.
	ErrFailed = errkind.New("vfs: database failed earlier", errkind.ErrPoisoned)
)

// errNoDatabase: a file that SQLite opens without creating it isn't there.
var errNoDatabase = errors.New("no such database")

// sqliteError maps an error of ours to what SQLite should see: a code, with the
// cause attached. ioerr is the code of the operation that failed, used when
// nothing says it better. It never yields IOERR_NOMEM, which go-sqlite3 turns
// into a panic, nor IOERR_COMMIT_ATOMIC, which asks SQLite to try again with a
// journal and is decided at the one place that may.
//
// https://sqlite.org/rescode.html
func sqliteError(err error, ioerr sqlite3.ExtendedErrorCode) error {
	if err == nil || ofSQLite(err) {
		return err
	}
	return sqlitevfs.SystemError(err, sqliteCode(err, ioerr))
}

// ofSQLite says whether err is a code of SQLite's already.
func ofSQLite(err error) bool {
	switch err.(type) {
	case sqlite3.ErrorCode, sqlite3.ExtendedErrorCode:
		return true
	}
	return false
}

// sqliteCode is the code that SQLite sees of err.
func sqliteCode(err error, ioerr sqlite3.ExtendedErrorCode) sqlite3.ExtendedErrorCode {
	switch {
	case errors.Is(err, actorstore.ErrQuota), errors.Is(err, batch.ErrTooLarge), errors.Is(err, ErrTempFull):
		return sqlite3.ExtendedErrorCode(sqlite3.FULL)
	case errors.Is(err, ErrSnapshotTooOld):
		// After an IOERR SQLite ends the transaction by itself, and what follows in it
		// would read a newer state. BUSY leaves it to its user, as what it is: over.
		// This kind of BUSY nothing else here has, so that Cause can tell it.
		return sqlite3.BUSY_TIMEOUT
	case errors.Is(err, actorstore.ErrCorrupt):
		// The code that SQLite sets aside for a VFS which finds itself damaged.
		return sqlite3.IOERR_CORRUPTFS
	}
	return ioerr
}

// Cause returns the error of Greenroom's own behind err, which a statement, a transaction or a
// connection returned: one that errors.Is can tell apart (actorstore.ErrQuota,
// actorstore.ErrFenced, ErrSnapshotTooOld, …). An error of a pool that Open made always carries it,
// so that errors.Is finds it without Cause; an error of go-sqlite3's own API carries it only where
// go-sqlite3 kept it. If err carries none, Cause returns nil; DB.Cause then knows the last one that
// this database met.
func Cause(err error) error {
	var caused *causedError
	if errors.As(err, &caused) {
		return caused.cause
	}
	if errors.Is(err, sqlite3.BUSY_TIMEOUT) {
		return ErrSnapshotTooOld // SQLite keeps the cause of few codes, but each code
	}
	var e *sqlite3.Error
	if !errors.As(err, &e) {
		return nil
	}
	return e.Unwrap()
}

// errLongName is the error of a query with a column whose name go-sqlite3 doesn't read.
var errLongName = fmt.Errorf("%w: the name of a column is longer than 1,000,000 bytes: give it one with AS", ErrUnsupported)

// A causedError is an error of SQLite with the reason behind it. errors.Is finds the
// sentinels of both, errors.As SQLite's code.
type causedError struct{ sqlite, cause error }

// Error says what SQLite says, and why, unless SQLite has said that already.
func (e *causedError) Error() string {
	said, why := e.sqlite.Error(), e.cause.Error()
	if strings.Contains(said, why) {
		return said
	}
	return said + ": " + why
}

// Unwrap returns both.
func (e *causedError) Unwrap() []error { return []error{e.sqlite, e.cause} }

// errNotOwner: SQLite wrote without the lock for it.
var errNotOwner = errors.New("vfs: write without the write lock")
