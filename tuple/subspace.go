package tuple

import (
	"bytes"
	"slices"
)

// A Subspace is the keys that begin with a prefix, mostly a packed tuple, and
// go on with packed elements. The zero value is the whole keyspace. A Subspace
// doesn't change, and is safe for concurrent use.
type Subspace struct {
	prefix []byte
}

// NewSubspace returns the subspace of keys that begin with the elements of t. It
// panics as Tuple.Pack does.
func NewSubspace(t Tuple) Subspace { return Subspace{t.Pack()} }

// FromBytes returns the subspace of keys that begin with prefix, which it copies.
func FromBytes(prefix []byte) Subspace { return Subspace{bytes.Clone(prefix)} }

// Bytes returns the prefix. The caller must not modify it.
func (s Subspace) Bytes() []byte { return slices.Clip(s.prefix) }

// Sub returns the subspace of s whose keys go on with els. It panics as Pack does.
func (s Subspace) Sub(els ...Element) Subspace { return Subspace{s.Pack(els)} }

// Pack returns the key of t in s. It panics if t has an element that can't be
// packed, as Tuple.Pack does.
func (s Subspace) Pack(t Tuple) []byte {
	return t.appendPack(append(make([]byte, 0, len(s.prefix)+spareKey), s.prefix...))
}

// spareKey is room for the elements of most keys.
const spareKey = 32

// Append appends the key of t in s to dst, with the errors of the function Append.
func (s Subspace) Append(dst []byte, t Tuple) ([]byte, error) {
	key, err := Append(append(dst, s.prefix...), t)
	if err != nil {
		return dst, err
	}
	return key, nil
}

// Unpack returns the elements of key behind the prefix. A key outside of s is
// ErrPrefix; else the errors are those of the function Unpack.
func (s Subspace) Unpack(key []byte) (Tuple, error) {
	if !s.Contains(key) {
		return nil, ErrPrefix
	}
	return Unpack(key[len(s.prefix):])
}

// Contains reports whether key begins with the prefix of s.
func (s Subspace) Contains(key []byte) bool { return bytes.HasPrefix(key, s.prefix) }

// Range returns the half-open range of the keys in s that have at least one
// element behind the prefix; the prefix itself, taken as a key, isn't in it.
func (s Subspace) Range() (begin, end []byte) { return Range(s.prefix) }

// Range returns the half-open range [packed‖00, packed‖FF) of the tuples that
// begin with the packed one and are longer. No type code is FF.
func Range(packed []byte) (begin, end []byte) {
	n := len(packed) + 1
	b := make([]byte, 0, 2*n)
	b = append(append(b, packed...), 0)
	b = append(append(b, packed...), escape)
	return b[:n:n], b[n:]
}
