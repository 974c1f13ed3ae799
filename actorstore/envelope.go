package actorstore

import (
	"fmt"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/tuple"
)

// The envelope is how a logical key and its value lie in the engine, as rows. All
// keys are tuples (https://github.com/apple/foundationdb/blob/main/design/tuple.md):
//
//	(0, 3, 72, id)                      the subspace of one actor, its prefix: 25 bytes
//	prefix + ((key,), 4, i)   DATA      bytes i·10,000 to (i+1)·10,000 of the value
//	prefix + ((key,), 44)     METADATA  BARE {version data, updated i64 ms}, no version prefix
//
// Every key has one METADATA row, which says that it exists. Its DATA rows sort
// before it, are numbered from 0 without a hole, and hold 10,000 bytes each but
// the last, which has at least one: an empty value has none. The two wrapper bytes
// that limits and quota count with each key are the 05 01 before it.
//
// These encodings will not change; the golden bytes are in testdata/envelope.json.

const (
	subspaceRoot    = 0
	subspaceModule  = 3
	subspaceKV      = 72
	columnData      = 4
	columnMetadata  = 44
	rowSize         = 10_000
	prefixSize      = 25
	metadataVersion = "1" // what this package writes as the version of a METADATA row
	metadataSize    = 1 + len(metadataVersion) + 8
)

// A prefix is the encoded subspace of an actor.
type prefix [prefixSize]byte

func newPrefix(id ID) prefix {
	var p prefix
	b := tuple.AppendUint(p[:0], subspaceRoot)
	b = tuple.AppendUint(b, subspaceModule)
	b = tuple.AppendUint(b, subspaceKV)
	if b = tuple.AppendID(b, id.UUID, id.Label); len(b) != prefixSize {
		panic("actorstore: the subspace of an actor has another length")
	}
	return p
}

// The append functions below append a physical key, or a bound of physical keys,
// to dst. They allocate nothing when dst has room.

// appendBase appends what all rows of key begin with. No row of another key
// begins so: the end 00 00 occurs in no escaped key.
func (p *prefix) appendBase(dst, key []byte) []byte {
	dst = tuple.AppendNestedStart(append(dst, p[:]...))
	return tuple.AppendNestedEnd(tuple.AppendBytes(dst, key))
}

// appendData completes a base to the key of DATA row i.
func appendData(base []byte, i int) []byte {
	return tuple.AppendUint(tuple.AppendUint(base, columnData), uint64(i))
}

// appendMetadata completes a base to the key of the METADATA row.
func appendMetadata(base []byte) []byte { return tuple.AppendUint(base, columnMetadata) }

// appendBound appends the bound between the rows of keys < key and those of
// keys ≥ key: the escaped key without its end, so it is also what the rows of all
// keys that begin with key begin with.
func (p *prefix) appendBound(dst, key []byte) []byte {
	dst = append(tuple.AppendNestedStart(append(dst, p[:]...)), nestedBytes)
	return tuple.AppendEscaped(dst, key)
}

// appendEnd appends the bound above the rows of all keys.
func (p *prefix) appendEnd(dst []byte) []byte {
	return append(tuple.AppendNestedStart(append(dst, p[:]...)), nestedBytes+1)
}

// nestedBytes is the type code of a byte string.
const nestedBytes = 0x01

// appendAbove and appendBelow complete a packed tuple to the bounds of everything
// that begins with it and goes on.
func appendBelow(dst []byte) []byte { return append(dst, 0x00) }
func appendAbove(dst []byte) []byte { return append(dst, 0xff) }

// A column is the part of a physical key that says which row of its key it is.
type column struct {
	metadata bool
	index    int // of a DATA row
}

// maxRows bounds the index of a DATA row, far above any limit of a value, so that
// sizes computed from a damaged key don't overflow.
const maxRows = 1 << 32

// parseColumn decodes what follows a base.
func parseColumn(tail []byte) (column, error) {
	c, rest, err := tuple.NextInt(tail)
	switch {
	case err != nil:
		return column{}, err
	case c == columnMetadata && len(rest) == 0:
		return column{metadata: true}, nil
	case c != columnData:
		return column{}, fmt.Errorf("column %d", c)
	}
	i, rest, err := tuple.NextInt(rest)
	switch {
	case err != nil:
		return column{}, err
	case i < 0 || i >= maxRows || len(rest) > 0:
		return column{}, fmt.Errorf("DATA row %d with %d bytes behind", i, len(rest))
	}
	return column{index: int(i)}, nil
}

// parseBase appends the logical key of a physical one to dst and returns it with
// the length of the base.
func (p *prefix) parseBase(dst, physical []byte) (key []byte, base int, err error) {
	if len(physical) <= prefixSize || [prefixSize]byte(physical) != *p || physical[prefixSize] != nestedTuple {
		return nil, 0, fmt.Errorf("physical key %x is outside of the actor: %w", physical, ErrCorrupt)
	}
	key, rest, err := tuple.NextBytes(dst, physical[prefixSize+1:])
	if err != nil {
		return nil, 0, fmt.Errorf("physical key %x: %w: %w", physical, err, ErrCorrupt)
	}
	if len(rest) == 0 || rest[0] != 0 {
		return nil, 0, fmt.Errorf("physical key %x wraps more than one key: %w", physical, ErrCorrupt)
	}
	return key, len(physical) - len(rest) + 1, nil
}

// nestedTuple is the type code of a nested tuple.
const nestedTuple = 0x05

// rowsOf returns how many DATA rows a value of n bytes has; none for n ≤ 0, which
// also stands for no value at all.
func rowsOf(n int64) int {
	if n <= 0 {
		return 0
	}
	return int((n + rowSize - 1) / rowSize)
}

// appendMetadataValue appends the value of a METADATA row.
func appendMetadataValue(dst []byte, version string, updated int64) []byte {
	return bare.AppendI64(bare.AppendString(dst, version), updated)
}

// parseMetadataValue decodes the value of a METADATA row; the version is a part
// of b. Any version is accepted: it says who wrote, not how.
func parseMetadataValue(b []byte) (version []byte, updated int64, err error) {
	r := bare.NewReader(b)
	version, updated = r.Data(), r.I64()
	return version, updated, r.Done()
}

// A shape checks that the rows of one key, given in ascending order, are what a
// value has.
type shape struct {
	size     int // bytes in the DATA rows so far
	rows     int
	metadata bool
	updated  int64
}

// add takes the next row.
func (s *shape) add(c column, value []byte) error {
	switch {
	case s.metadata:
		return fmt.Errorf("a row after METADATA")
	case c.metadata:
		_, updated, err := parseMetadataValue(value)
		s.metadata, s.updated = true, updated
		return err
	case c.index != s.rows:
		return fmt.Errorf("DATA row %d is missing, row %d is there", s.rows, c.index)
	case s.size != s.rows*rowSize:
		return fmt.Errorf("DATA row %d is short and not the last", s.rows-1)
	case len(value) == 0 || len(value) > rowSize:
		return fmt.Errorf("DATA row %d has %d bytes", c.index, len(value))
	}
	s.rows++
	s.size += len(value)
	return nil
}

// end says whether all rows were there.
func (s *shape) end() error {
	if !s.metadata {
		return fmt.Errorf("METADATA is missing")
	}
	return nil
}
