package workaround

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/greenroomdb/greenroom/kv"
)

// tableNumber is what Pebble calls a table.
var tableNumber = regexp.MustCompile(`\b\d{6,}\b`)

// Corrupt gives an error of Pebble the kind of damage, and the name of the file if it has only the number of a table.
func Corrupt(err error) error {
	text := err.Error()
	if number := tableNumber.FindString(text); number != "" && !strings.Contains(text, number+".") && !strings.Contains(text, "-"+number) {
		return fmt.Errorf("%w: %s.sst: %w", kv.ErrCorrupt, number, err)
	}
	return fmt.Errorf("%w: %w", kv.ErrCorrupt, err)
}

// badOptions are in the errors with which Pebble refuses a file of options.
var badOptions = []string{"invalid key=value syntax", "comparer name from file", "merger name from file", "WALRecoveryDirs"}

// OpenError gives what Pebble says when opening the kind of damage if it is of one. Pebble's own log would be in logDir. Where a file is missing that Pebble knows of, or is shorter, it doesn't
// say that of corruption.
func OpenError(err error, logDir string) error {
	switch {
	case errors.Is(err, kv.ErrCorrupt):
	case errors.Is(err, pebble.ErrDBNotPristine):
		return fmt.Errorf("%w: there is no file marker.format-version.*: %w", kv.ErrCorrupt, err)
	case slices.ContainsFunc(badOptions, func(text string) bool { return strings.Contains(err.Error(), text) }):
		return fmt.Errorf("%w: the newest file OPTIONS-*: %w", kv.ErrCorrupt, err)
	case strings.Contains(err.Error(), "invalid batch"):
		return fmt.Errorf("%w: a file *.log of Pebble in %s: %w", kv.ErrCorrupt, logDir, err)
	case pebble.IsCorruptionError(err), errors.Is(err, fs.ErrNotExist), strings.Contains(err.Error(), "object size mismatch"):
		return Corrupt(err)
	}
	return err
}
