package pgkv

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/greenroomdb/greenroom/kv"
)

// An entry of a B-tree is at most 2,704 bytes, a third of a page
// (https://www.postgresql.org/docs/15/btree-implementation.html), and keys are longer:
// an actor's key of 2,048 bytes is stored as 4,130 at worst. So what the table has as
// its key is a surrogate:
//
//	key                        column key                        column rest
//	up to prefixLen bytes      the key                           NULL
//	longer, a long key         prefix + SHA-256 of the rest      the rest
//
// Two keys have the same surrogate only if their rests have the same SHA-256. In the
// order of their surrogates keys are in their own order, except among the long keys
// with the same prefix, a group: those are next to each other, behind the key that is
// the prefix, and before everything else; a scan puts them in order by their rests.
//
// Long keys are rare: nothing is paid for them by others but a look at rest.

const (
	prefixLen    = 2600
	surrogateLen = prefixLen + sha256.Size
)

// appendSurrogate appends the surrogate of key to dst.
func appendSurrogate(dst, key []byte) []byte {
	if len(key) <= prefixLen {
		return append(dst, key...)
	}
	sum := sha256.Sum256(key[prefixLen:])
	return append(append(dst, key[:prefixLen]...), sum[:]...)
}

// restOf returns what the column rest holds for key.
func restOf(key []byte) []byte {
	if len(key) <= prefixLen {
		return nil
	}
	return key[prefixLen:]
}

// appendKey appends to dst the key of a row.
func appendKey(dst, surrogate, rest []byte) []byte {
	if rest == nil {
		return append(dst, surrogate...)
	}
	return append(append(dst, surrogate[:prefixLen]...), rest...)
}

// appendLow appends the lowest surrogate that a key from key on can have.
func appendLow(dst, key []byte) []byte {
	if len(key) <= prefixLen {
		return append(dst, key...)
	}
	return append(append(dst, key[:prefixLen]...), 0)
}

// appendHigh appends a bound above all surrogates of keys below key; nil stands for no
// bound.
func appendHigh(dst, key []byte) []byte {
	switch {
	case key == nil:
		return append(dst, top...)
	case len(key) <= prefixLen:
		return append(dst, key...)
	}
	return append(append(dst, key[:prefixLen]...), top[:sha256.Size+1]...)
}

// top is above all surrogates.
var top = bytes.Repeat([]byte{0xff}, surrogateLen+1)

// above reports whether a long key is outside of [start, end), of which surrogates can
// say nothing if these are long too.
func outside(key []byte, r *kv.Range) bool {
	return bytes.Compare(key, r.Start) < 0 || r.End != nil && bytes.Compare(key, r.End) >= 0
}

// gateID returns the number of the lock that commits and transactions of a store
// share, among all advisory locks of its database.
func gateID(schema string) int64 {
	sum := sha256.Sum256([]byte("greenroom gate " + schema))
	return int64(binary.BigEndian.Uint64(sum[:]))
}
