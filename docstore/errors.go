package docstore

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// Sentinels of a document store. Those of package txn and of engines come as well. What a method of Tx or Store
// returns about a path comes as an *Error.
var (
	// ErrNotFound: no entity is at the path.
	ErrNotFound = errkind.New("docstore: no such entity", errkind.ErrNotFound)
	// ErrExists: an entity is at the path already.
	ErrExists = errkind.New("docstore: entity exists", errkind.ErrConflict)
	// ErrNotEmpty: a container with children is deleted, and recursive is not set.
	ErrNotEmpty = errkind.New("docstore: container is not empty", errkind.ErrConflict)
	// ErrAmbiguous: several members have the name that a virtual path ends in. The whole path of a document, escaped
	// as one name, is never ambiguous.
	ErrAmbiguous = errkind.New("docstore: several documents have this name", errkind.ErrConflict)
	// ErrPath: what was given as a path isn't one.
	ErrPath = errors.New("docstore: bad path")
	// ErrOperation: entities of this kind can't do that: only containers have children of their own, only documents
	// have properties.
	ErrOperation = errors.New("docstore: invalid operation")
	// ErrValue: a value has a type that properties can't hold, a text that is not UTF-8, or is nested too deeply.
	ErrValue = errors.New("docstore: bad value")
	// ErrExpression: an expression was refused. One that isn't a regular expression comes as an *ExpressionError.
	ErrExpression = errors.New("docstore: bad expression")
	// ErrTooLarge: a path, a label, a document or a subtree that is moved exceeds its bound.
	ErrTooLarge = errkind.New("docstore: too large", errkind.ErrTooLarge)
	// ErrBuilding: the category, catalogue or index is not built yet; Build goes on.
	ErrBuilding = errors.New("docstore: still being built")
	// ErrDisabled: the expression of an imported entity was refused, or gives other members, so nothing keeps it right.
	ErrDisabled = errors.New("docstore: disabled")
	// ErrImporting: the store lacks a part of what an import began to store. Import the dump again.
	ErrImporting = errors.New("docstore: import is not complete")
	// ErrCorrupt: what is stored, or imported, is not what the format allows.
	ErrCorrupt = errkind.New("docstore: stored data is corrupt", errkind.ErrCorrupt)
	// ErrNewerFormat: a newer version of the module wrote it.
	ErrNewerFormat = errkind.New("docstore: newer format", errkind.ErrNewerFormat)
)

// An Error says at which path an operation failed.
type Error struct {
	Op   string // "create", "delete" and so on
	Path Path
	Err  error
}

// Error names operation, path and reason.
func (e *Error) Error() string { return fmt.Sprintf("docstore: %s %s: %v", e.Op, clip(e.Path), e.Err) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// wrap returns err with what was done, and where; nil if err is nil.
func wrap(op string, path Path, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &Error{op, path, err}
}

// An ExpressionError says why an expression was refused, and where.
type ExpressionError struct {
	Expression   string
	Line, Column int    // from 1; a column is a Unicode code point
	What         string // one sentence
}

// Error has the place in front of the reason.
func (e *ExpressionError) Error() string {
	return fmt.Sprintf("%v: %d:%d: %s", ErrExpression, e.Line, e.Column, e.What)
}

// Unwrap returns ErrExpression.
func (e *ExpressionError) Unwrap() error { return ErrExpression }

// clip shortens what goes into an error.
func clip[S ~string | ~[]byte](s S) string {
	const most = 200
	if len(s) <= most {
		return string(s)
	}
	return string(s[:most]) + "…"
}
