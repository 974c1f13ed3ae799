package pebblekv

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
)

// Errors of this engine beside those of package kv.
var (
	// ErrNewerFormat: Open found a store in a format of Pebble's that this version
	// of the program does not know; it comes as a *kv.FormatError. It is
	// kv.ErrNewerFormat.
	ErrNewerFormat = kv.ErrNewerFormat
	// ErrReadOnly: the store was opened with Options.ReadOnly; nothing was
	// applied.
	ErrReadOnly = errkind.New("pebblekv: the store is open for reading only", errkind.ErrReadOnly)
)

// wrap gives an error of Pebble its place in the contract.
func wrap(err error) error {
	switch {
	case err == nil:
		return nil
	case pebble.IsCorruptionError(err):
		return fmt.Errorf("pebblekv: %w: %w", kv.ErrCorrupt, err)
	}
	return fmt.Errorf("pebblekv: %w", err)
}
