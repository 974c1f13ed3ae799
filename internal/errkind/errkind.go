// Package errkind has the kinds of errors that a caller branches on, whichever package of the module an
// error comes from. The root package exports them, and says what to do about each.
//
// A sentinel says what happened in the words of its own package, and is of one of these kinds: for
// errors.Is it is both. Its text leaves out the kind, and unwrapping the sentinel doesn't find it.
package errkind

import (
	"errors"
	"fmt"
)

// The kinds.
var (
	// ErrFenced: another owner has taken over.
	ErrFenced = errors.New("greenroom: fenced")
	// ErrInUse: another owner has it, and is alive.
	ErrInUse = errors.New("greenroom: in use")
	// ErrQuota: more would be stored than may be.
	ErrQuota = errors.New("greenroom: quota exceeded")
	// ErrNoSpace: the disk is full.
	ErrNoSpace = errors.New("greenroom: no space")
	// ErrTooLarge: one thing is larger than such a thing may be.
	ErrTooLarge = errors.New("greenroom: too large")
	// ErrConflict: something else changed it first, and nothing was written.
	ErrConflict = errors.New("greenroom: conflict")
	// ErrNotFound: what was asked for doesn't exist.
	ErrNotFound = errors.New("greenroom: not found")
	// ErrCorrupt: what is stored is not what its format allows.
	ErrCorrupt = errors.New("greenroom: corrupt")
	// ErrPoisoned: after an earlier failure it refuses everything until it is opened again.
	ErrPoisoned = errors.New("greenroom: poisoned")
	// ErrClosed: it was closed, or is over.
	ErrClosed = errors.New("greenroom: closed")
	// ErrReadOnly: it can't be written to.
	ErrReadOnly = errors.New("greenroom: read-only")
	// ErrUnsupported: it can't do this at all.
	ErrUnsupported = errors.New("greenroom: unsupported")
	// ErrNewerFormat: a newer version of the program wrote it.
	ErrNewerFormat = errors.New("greenroom: newer format")
	// ErrUnknownOutcome: it may have been written, or not.
	ErrUnknownOutcome = errors.New("greenroom: unknown outcome")
	// ErrSnapshotTooOld: the state that it reads is not kept any more.
	ErrSnapshotTooOld = errors.New("greenroom: snapshot too old")
)

type sentinel struct {
	text string
	kind error
}

// New returns a sentinel with a text of its own and one of the kinds.
func New(text string, kind error) error { return &sentinel{text, kind} }

func (s *sentinel) Error() string { return s.text }

// Is reports whether target is the kind.
func (s *sentinel) Is(target error) bool { return target == s.kind }

// A Sentence is an error with a text of its own, which says to people what it means.
type Sentence struct {
	text string
	err  error
}

// Say returns err with the text that format and args make. err may be nil: then nothing is behind the text.
func Say(err error, format string, args ...any) error {
	return &Sentence{fmt.Sprintf(format, args...), err}
}

// Error returns the text.
func (s *Sentence) Error() string { return s.text }

// Unwrap returns the error that the sentence is about, or nil.
func (s *Sentence) Unwrap() error { return s.err }
