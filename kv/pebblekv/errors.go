package pebblekv

import (
	"fmt"
	"regexp"
	"strings"

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

// wrap gives an error of Pebble its place in the contract.
func wrap(err error) error {
	switch {
	case err == nil:
		return nil
	case pebble.IsCorruptionError(err):
		return fmt.Errorf("pebblekv: %w", corrupt(err))
	}
	return fmt.Errorf("pebblekv: %w", err)
}

// tableNumber is what Pebble calls a table.
var tableNumber = regexp.MustCompile(`\b\d{6,}\b`)

// corrupt gives an error of Pebble the kind of damage, and the name of the file if it has only the number of a table.
func corrupt(err error) error {
	text := err.Error()
	if number := tableNumber.FindString(text); number != "" && !strings.Contains(text, number+".") && !strings.Contains(text, "-"+number) {
		return fmt.Errorf("%w: %s.sst: %w", kv.ErrCorrupt, number, err)
	}
	return fmt.Errorf("%w: %w", kv.ErrCorrupt, err)
}
