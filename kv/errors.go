package kv

import (
	"errors"
	"fmt"
)

// Sentinels of the contract. An engine wraps them with what it knows; the
// packages above tell them apart with errors.Is.
var (
	// ErrNotFound: Get found no such key.
	ErrNotFound = errors.New("kv: key not found")
	// ErrConflict: a Check of a Commit did not hold; nothing was applied.
	ErrConflict = errors.New("kv: conflict")
	// ErrTooLarge: a Commit, or an entry of it, is over the engine's Limits;
	// nothing was applied.
	ErrTooLarge = errors.New("kv: too large for the engine")
	// ErrInvalid: a Commit holds an Op that makes no sense, such as an OpSet of the
	// empty key or an OpClearRange without an end; nothing was applied.
	ErrInvalid = errors.New("kv: invalid commit")
	// ErrUnknownOutcome: it is not known whether a Commit applied.
	ErrUnknownOutcome = errors.New("kv: outcome of the commit is unknown")
	// ErrPoisoned: an earlier failure left the engine in doubt about its own
	// state; it refuses everything until the store is opened again.
	ErrPoisoned = errors.New("kv: store is poisoned by an earlier failure")
	// ErrClosed: the engine or the snapshot is closed.
	ErrClosed = errors.New("kv: closed")
	// ErrCorrupt: the store holds bytes that its format does not allow.
	ErrCorrupt = errors.New("kv: corrupt")
	// ErrStoreInUse: another process, or another engine of this one, has the
	// store open.
	ErrStoreInUse = errors.New("kv: store is in use")
	// ErrNotAStore: what the path names is there, but is no store.
	ErrNotAStore = errors.New("kv: not a store")
	// ErrNoStore: nothing is at the path, and the options don't allow creating it.
	ErrNoStore = errors.New("kv: no such store")
	// ErrNewerFormat: the store, or a row in it, was written by a newer version of
	// the program; it comes as a *FormatError.
	ErrNewerFormat = errors.New("kv: newer format")
)

// A FormatError says which version of a format was found. It wraps
// ErrNewerFormat. Engines return it for their files, and the packages above for
// their rows, so that whoever opens a store has one thing to look for.
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
