package pebblekv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/greenroomdb/greenroom/kv"
)

// The one row that a store keeps for itself: a version that no commit of transactions
// that anybody has seen is above, 8 bytes big-endian. It is where it is so that ranges
// that people read and clear don't reach it; where one does, the row is skipped. No read
// shows it, a check finds it missing, and writing it is kv.ErrInvalid. A store without
// transactions doesn't have it.
var (
	versionKey      = []byte("\xff\xff/greenroom/version")
	afterVersionKey = append(versionKey[:len(versionKey):len(versionKey)], 0)
)

// isOwn reports whether key is that of the row.
func isOwn(key []byte) bool {
	return len(key) == len(versionKey) && key[0] == versionKey[0] && string(key) == string(versionKey)
}

// coversOwn reports whether the row is in [start, end); a nil end is no bound.
func coversOwn(start, end []byte) bool {
	return (end == nil || bytes.Compare(versionKey, end) < 0) && bytes.Compare(start, versionKey) <= 0
}

// versionGap is how many versions are reserved at a time. Until the row is on stable
// storage nobody may see one of them: a crash loses commits that readers have seen, and
// what these saw must not get the same version again. When a store is opened its version
// is that of the row and one gap more, because the row was the version of the newest
// commit once, from which a gap was reserved.
const versionGap = 1 << 20

// loadVersion reads the row of a store that was just opened.
func (d *DB) loadVersion() error {
	v, closer, err := d.db.Get(versionKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(v) != 8 {
		return errors.Join(fmt.Errorf("%w: a version of %d bytes", kv.ErrCorrupt, len(v)), closer.Close())
	}
	d.version.Store(binary.BigEndian.Uint64(v) + versionGap)
	return closer.Close()
}

// reserve sees to it that versions up to least may be seen.
func (d *DB) reserve(least uint64) error {
	if d.ceiling.Load() >= least {
		return nil
	}
	d.reserving.Lock()
	defer d.reserving.Unlock()
	if d.ceiling.Load() >= least {
		return nil
	}
	ceiling := least + versionGap
	err := d.guard(func() error { return d.db.Set(versionKey, binary.BigEndian.AppendUint64(nil, ceiling), pebble.Sync) })
	if err := d.verdict(err); err != nil {
		return err
	}
	d.ceiling.Store(ceiling)
	return nil
}
