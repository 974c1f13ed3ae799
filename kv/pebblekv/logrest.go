package pebblekv

import (
	"bytes"
	"errors"
	"iter"

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
			return nil // what it has can't be applied
		}
		last = number
		return err
	})
	*rest = &logRest{cause: cause, disk: disk, last: last}
	return last, err
}

// A LeftCommit is a commit at the end of a log that the store leaves out.
type LeftCommit struct {
	// Number is that in the log. The first one that is left out has Last + 1, and those that can't be read have the numbers in
	// between.
	Number, Last uint64
	// Touched are the keys that it writes or clears: each a range. The caller may keep them.
	Touched []kv.Range
}

// LeftCommits yields the commits that can still be read of those that are left out, in order; see Options.WithoutLogRest. It
// reads them from the log, one at a time. The error is that of reading, and ends the sequence.
func (s *Salvage) LeftCommits() iter.Seq2[LeftCommit, error] {
	return func(yield func(LeftCommit, error) bool) {
		rest := s.d.rest
		if rest == nil {
			return
		}
		errStop := errors.New("the caller wants no more")
		err := wal.Salvage(rest.disk, rest.disk.PathJoin(s.d.dir, logDir), rest.last, func(number uint64, batch []byte) error {
			if !yield(LeftCommit{number, rest.last, rangesOf(batch)}, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && err != errStop {
			yield(LeftCommit{}, wrap(err))
		}
	}
}

// rangesOf returns what a batch of the log writes or clears, as far as it is one.
func rangesOf(batch []byte) (ranges []kv.Range) {
	for op, err := range (Record{Batch: batch}).Ops() {
		if err != nil {
			return ranges
		}
		r := kv.Range{Start: bytes.Clone(op.Key), End: bytes.Clone(op.End)}
		if op.End == nil {
			r.End = append(bytes.Clone(op.Key), 0)
		}
		if isOwn(op.Key) {
			continue
		}
		ranges = append(ranges, r)
	}
	return ranges
}
