package pgkv

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/jackc/pgx/v5/pgconn"
)

// Sentinels of this package, besides those of kv.
var (
	// ErrURL: the text names no PostgreSQL store. The error doesn't quote it, because
	// it may hold a password.
	ErrURL = errors.New("pgkv: not the address of a PostgreSQL store")
	// errReadOnly: the store was opened to be read.
	errReadOnly = errkind.New("pgkv: store is opened read-only", errkind.ErrReadOnly)
	// ErrUnavailable: no server answered that takes the request, for as long as
	// Options.RetryFor says. Nothing was applied.
	ErrUnavailable = errors.New("pgkv: no server is available")
	// ErrBusy: all of Options.Pins were in use for as long as Options.PinWait says.
	ErrBusy = errors.New("pgkv: too many open snapshots and scans")
	// errSnapshotLost: the connection that held a snapshot broke, and the state that
	// it showed can't be had again. Closing it is all that is left to do.
	errSnapshotLost = errkind.New("pgkv: snapshot lost with its connection", errkind.ErrSnapshotTooOld)
	// errVersion: the server is too old.
	errVersion = errkind.New("pgkv: PostgreSQL 14 or newer is needed", errkind.ErrUnsupported)
)

// errDoubt says that a transaction may have been committed.
var errDoubt = errors.New("the connection broke before the server answered COMMIT")

// A ServerError is what the server says of a request that it refused.
type ServerError struct {
	// Code is the SQLSTATE: https://www.postgresql.org/docs/15/errcodes-appendix.html
	Code string
	// Message is the server's sentence. It has no password in it.
	Message string
}

// Error returns the sentence with the code.
func (e *ServerError) Error() string { return fmt.Sprintf("PostgreSQL: %s (%s)", e.Message, e.Code) }

// Is reports whether target is errkind.ErrNoSpace, and the server's disk is full.
func (e *ServerError) Is(target error) bool {
	return target == errkind.ErrNoSpace && e.Code == codeDiskFull
}

// SQLSTATEs that mean something here.
const (
	codeDiskFull         = "53100"
	codeUniqueViolation  = "23505"
	codeSerialization    = "40001"
	codeDeadlock         = "40P01"
	codeReadOnly         = "25006"
	codeCanceled         = "57014"
	codeInvalidText      = "22P02"
	codeProgramLimit     = "54000"
	codeUnknownParameter = "42704"
	codeUndefinedTable   = "42P01"
	codeUndefinedColumn  = "42703"
	codeDependent        = "2BP01"
	codeUnsupported      = "0A000"
	codeUndefinedData    = "3D000"
)

// code returns the SQLSTATE of an error, "" when it isn't the server's.
func code(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	var se *ServerError
	if errors.As(err, &se) {
		return se.Code
	}
	return ""
}

// clean returns err without the driver's types.
func clean(err error) error {
	if pe, ok := err.(*pgconn.PgError); ok { // not one that is wrapped: its wrapping says more
		return &ServerError{pe.Code, pe.Message}
	}
	return err
}

// wrap says what failed; a context's error stays what it is.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgkv: %s: %w", what, clean(err))
}

// passing reports whether another try, perhaps on another server, may succeed after an error
// with this code. Nothing was applied.
func passing(code string) bool {
	switch code {
	case codeSerialization, codeDeadlock, // try again
		codeReadOnly,                       // a standby, or a primary of the past
		"53300",                            // too many connections
		"55P03",                            // a lock that is not available
		"57P01", "57P02", "57P03", "57P05": // going down, or starting
		return true
	}
	return len(code) == 5 && code[:2] == "08" // the connection
}
