package pebblekv

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
)

// errReadOnly: the store was opened with Options.ReadOnly; nothing was
// applied. It is of the kind errkind.ErrReadOnly, by which callers know it, whatever
// engine they have: a name of its own would be one more to ask for. Where a store of a newer
// format is opened the error is kv.ErrNewerFormat, as a *kv.FormatError, and one of damage
// wraps kv.ErrCorrupt.
var errReadOnly = errkind.New("pebblekv: the store is open for reading only", errkind.ErrReadOnly)

// ErrLogDamaged: a record of the write-ahead log can't be read, or a file of the log, or all of it, is missing. Open returns it,
// with kv.ErrCorrupt. Options.WithoutLogRest opens such a store for reading, and OpenSalvage copies what can be read of it.
var ErrLogDamaged = errkind.New("pebblekv: the log is damaged", kv.ErrCorrupt)

// A logError is ErrLogDamaged, in the words of the error that it wraps.
type logError struct{ error }

// Is reports whether target is ErrLogDamaged.
func (e logError) Is(target error) bool { return target == ErrLogDamaged }

// Unwrap returns what the log has said.
func (e logError) Unwrap() error { return e.error }

// ofLog gives an error of reading the log the kind ErrLogDamaged if it is one of damage.
func ofLog(err error) error {
	if errors.Is(err, kv.ErrCorrupt) {
		return logError{err}
	}
	return err
}

// wrap gives an error of Pebble its place in the contract.
func wrap(err error) error {
	switch {
	case err == nil:
		return nil
	case pebble.IsCorruptionError(err):
		return fmt.Errorf("pebblekv: %w", workaround.Corrupt(err))
	}
	return fmt.Errorf("pebblekv: %w", err)
}
