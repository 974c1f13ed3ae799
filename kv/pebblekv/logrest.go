package pebblekv

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/wal"
)

// A logRest is what a store that is opened with Options.WithoutLogRest leaves out of its log.
type logRest struct {
	cause error
	disk  vfs.FS
	last  uint64 // the number of the last commit that it has
}

// readBegin hands the commits behind number after to add, up to the first one that can't be read, and returns the number of
// the last one. If the log isn't whole, rest says so. Damage of what is in the tables as well costs nothing.
func readBegin(rest **logRest, disk vfs.FS, logs string, after uint64, add func(number uint64, batch []byte) error) (last uint64, err error) {
	cause := error(nil)
	if *rest != nil {
		cause = (*rest).cause
	} else if _, err = wal.Read(disk, logs, after, func(uint64, []byte) error { return nil }); err == nil {
		return wal.Read(disk, logs, after, add)
	} else if cause = ofLog(err); !errors.Is(err, kv.ErrCorrupt) {
		return after, err
	}
	last = after
	err = wal.Salvage(disk, logs, after, func(number uint64, batch []byte) error {
		if number != last+1 {
			return nil
		}
		err := add(number, batch)
		if errors.Is(err, kv.ErrCorrupt) {
			return nil // the commit can't be applied
		}
		last = number
		return err
	})
	*rest = &logRest{cause: cause, disk: disk, last: last}
	return last, err
}
