package kv

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// Sentinels of the contract. An engine wraps them with what it knows; the
// packages above tell them apart with errors.Is.
var (
	// ErrNotFound: Get found no such key.
	ErrNotFound = errkind.New("kv: key not found", errkind.ErrNotFound)
	// ErrConflict: a Check of a Commit did not hold; nothing was applied.
	ErrConflict = errkind.New("kv: conflict", errkind.ErrConflict)
	// ErrIncarnation: a Commit belongs to an Incarnation of the engine that is over;
	// nothing was applied.
	ErrIncarnation = errors.New("kv: the engine is in another incarnation")
	// ErrTooLarge: a Commit, or an entry of it, is over the engine's Limits;
	// nothing was applied.
	ErrTooLarge = errkind.New("kv: too large for the engine", errkind.ErrTooLarge)
	// ErrInvalid: a Commit holds an Op that makes no sense, such as an OpSet of the
	// empty key or an OpClearRange without an end; nothing was applied.
	ErrInvalid = errors.New("kv: invalid commit")
	// ErrNotApplied: nothing of a Commit was applied. It is the kind of every error of a Commit, whatever its reason, but
	// for ErrUnknownOutcome and ErrPoisoned: the caller may go on.
	ErrNotApplied = errors.New("kv: nothing was applied")
	// ErrUnknownOutcome: it is not known whether a Commit applied.
	ErrUnknownOutcome = errkind.New("kv: outcome of the commit is unknown", errkind.ErrUnknownOutcome)
	// ErrPoisoned: an earlier failure left the engine in doubt about its own
	// state; it refuses everything until the store is opened again.
	ErrPoisoned = errkind.New("kv: store is poisoned by an earlier failure", errkind.ErrPoisoned)
	// ErrClosed: the engine or the snapshot is closed.
	ErrClosed = errkind.New("kv: closed", errkind.ErrClosed)
	// ErrCorrupt: the store holds bytes that its format does not allow.
	ErrCorrupt = errkind.New("kv: corrupt", errkind.ErrCorrupt)
	// ErrStoreInUse: another process, or another engine of this one, has the
	// store open.
	ErrStoreInUse = errkind.New("kv: store is in use", errkind.ErrInUse)
	// ErrNotAStore: what the path names exists, but is not a store.
	ErrNotAStore = errors.New("kv: not a store")
	// ErrNoStore: nothing is at the path, and the options don't allow creating it.
	ErrNoStore = errkind.New("kv: no such store", errkind.ErrNotFound)
	// ErrNewerFormat: the store, or a row in it, was written by a newer version of
	// the program; it comes as a *FormatError.
	ErrNewerFormat = errkind.New("kv: newer format", errkind.ErrNewerFormat)
)

// Sentinels of transactions. ErrConflict, of a transaction, means that another commit
// got between its reads and its commit.
var (
	// ErrUnsupported: the engine doesn't offer what was asked for.
	ErrUnsupported = errkind.New("kv: not supported by the engine", errkind.ErrUnsupported)
)

// NotApplied returns the error of a Commit as one of the kind ErrNotApplied, with the same text; as it is if it is nil, or
// ErrUnknownOutcome or ErrPoisoned, which leave it open what was applied. Engines return their errors by it.
func NotApplied(err error) error {
	if err == nil || errors.Is(err, ErrUnknownOutcome) || errors.Is(err, ErrPoisoned) {
		return err
	}
	return notApplied{err}
}

type notApplied struct{ error }

func (n notApplied) Unwrap() error { return n.error }

// Is reports whether target is ErrNotApplied.
func (n notApplied) Is(target error) bool { return target == ErrNotApplied }

// A FormatError says which version of a format was found. It wraps
// ErrNewerFormat. Engines return it for their files, and the packages above for
// their rows, so that a program that opens a store has one thing to look for.
type FormatError struct {
	What         string // what has the version: "store", "head of actor …", "Pebble directory"
	Found, Known uint64 // the version that was found, and the newest that is known
}

// Error names both versions.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%v: %s has version %d, known are versions up to %d", ErrNewerFormat, e.What, e.Found, e.Known)
}

// Unwrap returns ErrNewerFormat.
func (e *FormatError) Unwrap() error { return ErrNewerFormat }
