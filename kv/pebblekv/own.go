package pebblekv

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/greenroomdb/greenroom/kv"
)

// The two rows that a store keeps for itself, next to each other. Each is a number of 8 bytes,
// big-endian: a version at least as high as that of any commit of a transaction that a reader has
// seen, and the number in the log of the newest batch. Their keys lie outside the ranges that
// programs usually read and clear; a range that includes the rows skips them. No read shows them, a
// check finds them missing, and writing them is kv.ErrInvalid. A store without transactions doesn't
// have the first.
var (
	versionKey = []byte("\xff\xff/greenroom/version")
	numberKey  = append(versionKey[:len(versionKey):len(versionKey)], 0)
	afterOwn   = append(numberKey[:len(numberKey):len(numberKey)], 0)
)

// numberBytes is what setting the number adds to a batch, at most.
const numberBytes = 64

// isOwn reports whether key is that of one of the rows.
func isOwn(key []byte) bool {
	n := len(versionKey)
	return len(key) >= n && len(key) <= n+1 && key[0] == versionKey[0] && (string(key) == string(versionKey) || string(key) == string(numberKey))
}

// coversOwn reports whether one of the rows is in [start, end); a nil end means no bound.
func coversOwn(start, end []byte) bool {
	return (end == nil || bytes.Compare(versionKey, end) < 0) && bytes.Compare(start, numberKey) <= 0
}

// ownNumber returns what is in one of the rows, as it was read.
func ownNumber(v []byte, err error) (uint64, error) {
	if err == nil && len(v) != 8 {
		err = fmt.Errorf("%w: a number of %d bytes", kv.ErrCorrupt, len(v))
	}
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(v), nil
}
