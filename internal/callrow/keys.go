// Package callrow has the rows that a host keeps in an actor's keys about calls with an idempotency key: what each of them has returned, so that the same call,
// made again, is answered without being run.
//
// Key layout:
//
//	key of the actor                   value
//	68 63 + ms u64be + idempotency key v1: a call that landed then: digest data[16] of action,
//	                                   caller and arguments, result optional<data> (CBOR,
//	                                   empty for undefined)
//	68 72 + ms u64be + idempotency key v1: the result of that call, which is not in its row if
//	                                   it has more than 1024 bytes: data
//
//	v1 is a u16le version, and BARE. An idempotency key has 1 to 128 bytes of printable ASCII. A call
//	that lands later has no earlier time.
package callrow

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
)

// MaxID bounds an ID in bytes.
const MaxID = 128

// version is that of the values.
const version = 1

const space, calls, results = actorstore.NamespaceHost, 'c', 'r'

// maxBeside bounds a result that is in the row of its call, in bytes. Larger ones lie apart, so that rows of calls can be read without them.
const maxBeside = 1024

// A Call says which call has left a row.
type Call struct {
	At    int64  // Unix ms, not negative
	ID    string // its idempotency key
	Apart bool   // its result has a row of its own
}

// ValidID reports whether id has 1 to MaxID bytes of printable ASCII.
func ValidID(id string) bool {
	if id == "" || len(id) > MaxID {
		return false
	}
	for i := range len(id) {
		if id[i] < ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}

// Key returns the key of the call's row.
func (c Call) Key() []byte { return c.key(calls) }

// ResultKey returns the key of the row that the result of a call has if it lies apart.
func (c Call) ResultKey() []byte { return c.key(results) }

func (c Call) key(kind byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{space, kind}, uint64(c.At)), c.ID...)
}

// Range returns the half-open range of the keys of all rows of calls, in the order of their times.
func Range() (start, end []byte) { return []byte{space, calls}, []byte{space, calls + 1} }

// A Digest tells calls with one ID apart.
type Digest [16]byte

// DigestOf returns the digest of a call: the beginning of a SHA-256.
func DigestOf(action, caller string, args []byte) (d Digest) {
	h := sha256.New()
	h.Write(bare.AppendString(bare.AppendString(nil, action), caller)) // it never fails
	h.Write(args)
	copy(d[:], h.Sum(nil))
	return d
}

// Append appends the value of the call's row to dst, and returns the extended slice. result is CBOR, nil for undefined, and isn't in
// it if it lies apart.
func (c Call) Append(dst []byte, d Digest, result []byte) []byte {
	dst = bare.AppendVersion(dst, version)
	dst = bare.AppendFixed(dst, d[:])
	dst = bare.AppendBool(dst, !c.Apart)
	if !c.Apart {
		dst = bare.AppendData(dst, result)
	}
	return dst
}

// New returns the call that has landed at a time in Unix ms, with its idempotency key and its result.
func New(at int64, id string, result []byte) Call { return Call{at, id, len(result) > maxBeside} }

// Parse decodes the row of a call, and keeps nothing of key and value. The result is nil if it is undefined or lies apart. The error is
// kv.ErrCorrupt or kv.ErrNewerFormat.
func Parse(key, value []byte) (c Call, d Digest, result []byte, err error) {
	if c, err = parseKey(key); err != nil {
		return Call{}, d, nil, err
	}
	err = parse(value, "call with an idempotency key", func(rd *bare.Reader) {
		copy(d[:], rd.Fixed(len(d)))
		if c.Apart = !rd.Bool(); !c.Apart {
			if result = clone(rd.Data()); len(result) > maxBeside {
				rd.Fail("a result of %d bytes beside its call", len(result))
			}
		}
	})
	return c, d, result, err
}

// parseKey decodes what Key returns.
func parseKey(key []byte) (c Call, err error) {
	if rest, ok := bytes.CutPrefix(key, []byte{space, calls}); ok && len(rest) > 8 {
		at := binary.BigEndian.Uint64(rest)
		c = Call{At: int64(at & math.MaxInt64), ID: string(rest[8:])}
		if at <= math.MaxInt64 && ValidID(c.ID) {
			return c, nil
		}
	}
	return Call{}, fmt.Errorf("host: call with an idempotency key: %w: key %x", kv.ErrCorrupt, key)
}

// AppendResult appends the value of the row of a result that lies apart to dst, and returns the extended slice.
func AppendResult(dst, result []byte) []byte {
	return bare.AppendData(bare.AppendVersion(dst, version), result)
}

// ParseResult decodes what AppendResult appends, and keeps nothing of value. The error is kv.ErrCorrupt or kv.ErrNewerFormat.
func ParseResult(value []byte) (result []byte, err error) {
	err = parse(value, "result of a call", func(rd *bare.Reader) {
		if result = clone(rd.Data()); len(result) <= maxBeside {
			rd.Fail("a result of %d bytes apart from its call", len(result))
		}
	})
	return result, err
}

// clone returns a copy of a result.
func clone(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}

// parse reads a value. Errors call it what.
func parse(value []byte, what string, read func(rd *bare.Reader)) error {
	v, rest, err := bare.Version(value)
	if err != nil {
		return fmt.Errorf("host: %s: %w: %w", what, kv.ErrCorrupt, err)
	}
	if v != version {
		return fmt.Errorf("host: %s: %w: version %d", what, kv.ErrNewerFormat, v)
	}
	rd := bare.NewReader(rest)
	read(rd)
	if err := rd.Done(); err != nil {
		return fmt.Errorf("host: %s: %w: %w", what, kv.ErrCorrupt, err)
	}
	return nil
}
