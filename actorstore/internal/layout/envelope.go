package layout

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
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
	subspaceRoot   = 0
	subspaceModule = 3
	subspaceKV     = 72
	columnData     = 4
	columnMetadata = 44
	prefixSize     = 25
	idElement      = 20 // the length of an encoded id, the end of a prefix
)

// RowSize is how many bytes of a value a DATA row has, but for the last one.
const RowSize = 10_000

// MetadataVersion is the version that a METADATA row is written with.
const MetadataVersion = "1"

// A Prefix is the encoded subspace of an actor. It doesn't change.
type Prefix [prefixSize]byte

// NewPrefix returns the prefix of an actor.
func NewPrefix(id ID) Prefix {
	var p Prefix
	if b := tuple.AppendID(AppendRoot(p[:0]), id.UUID, id.Label); len(b) != prefixSize {
		panic("layout: the subspace of an actor has another length")
	}
	return p
}

// AppendRoot appends what the prefixes of all actors begin with.
func AppendRoot(dst []byte) []byte {
	return tuple.AppendUint(tuple.AppendUint(tuple.AppendUint(dst, subspaceRoot), subspaceModule), subspaceKV)
}

// ActorOf returns whose row a physical key is. ok is false if it doesn't begin with the
// prefix of an actor; what follows that isn't looked at.
func ActorOf(physical []byte) (id ID, ok bool) {
	if len(physical) < prefixSize {
		return ID{}, false
	}
	if !bytes.HasPrefix(physical, rootStart) {
		return ID{}, false
	}
	return nextID(physical[prefixSize-idElement:])
}

// rootStart is what AppendRoot appends.
var rootStart = AppendRoot(nil)

// idCode is what an id begins with in a tuple: package tuple has it.
const idCode = "\x40\x01"

// nextID returns the id that packed elements begin with. ok is false if they don't. It allocates nothing: what follows a log calls it for each key.
func nextID(packed []byte) (id ID, ok bool) {
	if len(packed) < idElement || string(packed[:len(idCode)]) != idCode {
		return ID{}, false
	}
	n := len(idCode) + copy(id.UUID[:], packed[len(idCode):])
	id.Label = binary.BigEndian.Uint16(packed[n:])
	return id, true
}

// AppendBase appends what all rows of key begin with. No row of another key
// begins so: the end 00 00 occurs in no escaped key.
func (p *Prefix) AppendBase(dst, key []byte) []byte {
	dst = tuple.AppendNestedStart(append(dst, p[:]...))
	return tuple.AppendNestedEnd(tuple.AppendBytes(dst, key))
}

// AppendData completes a base to the key of DATA row i, which isn't negative.
func AppendData(base []byte, i int) []byte {
	return tuple.AppendUint(tuple.AppendUint(base, columnData), uint64(i))
}

// AppendMetadata completes a base to the key of the METADATA row.
func AppendMetadata(base []byte) []byte { return tuple.AppendUint(base, columnMetadata) }

// AppendBound appends the bound between the rows of keys < key and those of
// keys ≥ key: the escaped key without its end, so it is also what the rows of all
// keys that begin with key begin with.
func (p *Prefix) AppendBound(dst, key []byte) []byte {
	dst = append(tuple.AppendNestedStart(append(dst, p[:]...)), nestedBytes)
	return tuple.AppendEscaped(dst, key)
}

// AppendEnd appends the bound above the rows of all keys.
func (p *Prefix) AppendEnd(dst []byte) []byte {
	return append(tuple.AppendNestedStart(append(dst, p[:]...)), nestedBytes+1)
}

// nestedBytes is the type code of a byte string.
const nestedBytes = 0x01

// AppendBelow completes a packed tuple to the lower bound, inclusive, of everything that
// begins with it and goes on. It is the next key behind the tuple's own, too.
func AppendBelow(dst []byte) []byte { return append(dst, 0x00) }

// AppendAbove completes a packed tuple to the upper bound, exclusive, of everything that
// begins with it and goes on.
func AppendAbove(dst []byte) []byte { return append(dst, 0xff) }

// A Column is the part of a physical key that says which row of its key it is.
type Column struct {
	Metadata bool // the METADATA row
	Index    int  // of a DATA row, from 0
}

// maxRows bounds the index of a DATA row, far above any limit of a value, so that
// sizes computed from a damaged key don't overflow.
const maxRows = 1 << 32

// ParseColumn decodes what follows a base. The error says which column it is instead.
func ParseColumn(tail []byte) (Column, error) {
	c, rest, err := tuple.NextInt(tail)
	switch {
	case err != nil:
		return Column{}, err
	case c == columnMetadata && len(rest) == 0:
		return Column{Metadata: true}, nil
	case c != columnData:
		return Column{}, fmt.Errorf("column %d", c)
	}
	i, rest, err := tuple.NextInt(rest)
	switch {
	case err != nil:
		return Column{}, err
	case i < 0 || i >= maxRows || len(rest) > 0:
		return Column{}, fmt.Errorf("DATA row %d with %d bytes behind", i, len(rest))
	}
	return Column{Index: int(i)}, nil
}

// ParseBase appends the logical key of a physical one to dst and returns it with
// the length of the base. The error wraps kv.ErrCorrupt: physical doesn't begin with a
// base of this actor.
func (p *Prefix) ParseBase(dst, physical []byte) (key []byte, base int, err error) {
	if len(physical) <= prefixSize || [prefixSize]byte(physical) != *p || physical[prefixSize] != nestedTuple {
		return nil, 0, fmt.Errorf("physical key %x is outside of the actor: %w", physical, kv.ErrCorrupt)
	}
	key, rest, err := tuple.NextBytes(dst, physical[prefixSize+1:])
	if err != nil {
		return nil, 0, fmt.Errorf("physical key %x: %w: %w", physical, err, kv.ErrCorrupt)
	}
	if len(rest) == 0 || rest[0] != 0 {
		return nil, 0, fmt.Errorf("physical key %x wraps more than one key: %w", physical, kv.ErrCorrupt)
	}
	return key, len(physical) - len(rest) + 1, nil
}

// nestedTuple is the type code of a nested tuple.
const nestedTuple = 0x05

// RowsOf returns how many DATA rows a value of n bytes has; none for n ≤ 0, which
// also stands for no value at all.
func RowsOf(n int64) int {
	if n <= 0 {
		return 0
	}
	return int((n + RowSize - 1) / RowSize)
}

// AppendMetadataValue appends the value of a METADATA row: the version of its writer, and
// when the value was written, in ms.
func AppendMetadataValue(dst []byte, version string, updated int64) []byte {
	return bare.AppendI64(bare.AppendString(dst, version), updated)
}

// ParseMetadataValue decodes the value of a METADATA row; the version is a part
// of b. Any version is accepted: it names the writer, not the format. The error is one of
// package bare.
func ParseMetadataValue(b []byte) (version []byte, updated int64, err error) {
	r := bare.NewReader(b)
	version, updated = r.Data(), r.I64()
	return version, updated, r.Done()
}

// A Shape checks that the rows of one key, given in ascending order, are what a
// value has. The zero Shape has no rows yet.
type Shape struct {
	Size     int   // bytes in the DATA rows so far
	Rows     int   // DATA rows so far
	Metadata bool  // the METADATA row was there
	Updated  int64 // what that says, in ms
}

// Add takes the next row. It doesn't keep value. The error says what is wrong with the
// row, which isn't counted then.
func (s *Shape) Add(c Column, value []byte) error {
	switch {
	case s.Metadata:
		return fmt.Errorf("a row after METADATA")
	case c.Metadata:
		_, updated, err := ParseMetadataValue(value)
		s.Metadata, s.Updated = true, updated
		return err
	case c.Index != s.Rows:
		return fmt.Errorf("DATA row %d is missing, row %d is there", s.Rows, c.Index)
	case s.Size != s.Rows*RowSize:
		return fmt.Errorf("DATA row %d is short and not the last", s.Rows-1)
	case len(value) == 0 || len(value) > RowSize:
		return fmt.Errorf("DATA row %d has %d bytes", c.Index, len(value))
	}
	s.Rows++
	s.Size += len(value)
	return nil
}

// End returns nil if all rows were there, else an error that names the missing one.
func (s *Shape) End() error {
	if !s.Metadata {
		return fmt.Errorf("METADATA is missing")
	}
	return nil
}
