package pebblekv

import (
	"encoding/binary"
	"errors"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2"
)

// versionGap is how many versions are reserved at a time. No reader may see one of them until the
// row that reserves them is on stable storage: a crash loses commits that readers have seen, and
// their versions must not be used again. A store that is opened takes the version in the row plus
// one gap, because the row of an old store is the version of its newest commit, which reserved a
// gap above it.
const versionGap = 1 << 20

// loadVersion returns the version of a store that was just opened.
func loadVersion(db *pebble.DB) (version uint64, err error) {
	v, closer, err := db.Get(versionKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	version, err = ownNumber(v, nil)
	if err = errors.Join(err, closer.Close()); err != nil {
		return 0, err
	}
	return version + versionGap, nil
}

// reserve sees to it that versions up to least may be seen. order is held, while the disk
// syncs too: that is once in half a gap of commits.
func (w *committer) reserve(least uint64) error {
	if w.ceiling.Load() >= least {
		return nil
	}
	ceiling, b := least+versionGap, w.newBatch(0)
	err := b.Set(versionKey, binary.BigEndian.AppendUint64(nil, ceiling), nil)
	if err == nil {
		var number uint64
		if number, err = w.put(b); err == nil {
			err = w.log.Sync(number)
		}
	}
	if err = w.verdict(workaround.Full(errors.Join(err, b.Close()))); err == nil {
		w.ceiling.Store(ceiling)
	}
	return err
}
