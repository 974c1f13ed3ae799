package pebblekv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/greenroomdb/greenroom/kv"
)

// The one row that a store keeps for itself: the version of its newest commit of
// transactions, 8 bytes big-endian, which is written with every such commit. It is
// where it is so that ranges that people read and clear don't reach it; where one
// does, the row is skipped. No read shows it, a check finds it missing, and writing
// it is kv.ErrInvalid. A store without transactions doesn't have it.
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

// versionGap is how far the version jumps whenever a store is opened. After a crash
// the disk may have lost commits that readers had seen; what they saw must not get
// the same version again. Those lost ones are far fewer, because whoever commits a
// transaction waits for the disk.
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
