package keys

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// A Codec turns values of a key type into bytes and back. The ones of this package
// hold nothing and allocate nothing that the value itself isn't; others should not
// either. What is stored once must stay readable: a codec that changes its bytes
// needs a version in them.
type Codec[V any] interface {
	// Append appends v to dst and returns the extended slice. It retains neither.
	Append(dst []byte, v V) ([]byte, error)
	// Decode returns the value that b, all of it, stands for. The value shares no
	// memory with b. Bytes that Append doesn't make are an error, kv.ErrCorrupt for one.
	Decode(b []byte) (V, error)
}

// wrongLength is the error for a value that must have another length.
func wrongLength(got, want int) error {
	return fmt.Errorf("value of %d bytes, want %d: %w", got, want, kv.ErrCorrupt)
}

// Int64 returns the Codec that stores an int64 as 8 bytes, big-endian, in two's complement.
func Int64() Codec[int64] { return int64Codec{} }

type int64Codec struct{}

// Append appends v. See Codec.
func (int64Codec) Append(dst []byte, v int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(v)), nil
}

// Decode reads an int64. See Codec.
func (int64Codec) Decode(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, wrongLength(len(b), 8)
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// Uint64 returns the Codec that stores a uint64 as 8 bytes, big-endian.
func Uint64() Codec[uint64] { return uint64Codec{} }

type uint64Codec struct{}

// Append appends v. See Codec.
func (uint64Codec) Append(dst []byte, v uint64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, v), nil
}

// Decode reads a uint64. See Codec.
func (uint64Codec) Decode(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, wrongLength(len(b), 8)
	}
	return binary.BigEndian.Uint64(b), nil
}

// Counter returns the Codec that stores an int64 that Add can add to without reading it: 8 bytes,
// little-endian, in two's complement, which is how MutationAdd counts.
func Counter() Codec[int64] { return counterCodec{} }

type counterCodec struct{}

// Append appends v. See Codec.
func (counterCodec) Append(dst []byte, v int64) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(dst, uint64(v)), nil
}

// Decode reads an int64. See Codec.
func (counterCodec) Decode(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, wrongLength(len(b), 8)
	}
	return int64(binary.LittleEndian.Uint64(b)), nil
}

// Bool returns the Codec that stores a truth value as one byte, 0 or 1.
func Bool() Codec[bool] { return boolCodec{} }

type boolCodec struct{}

// Append appends v. See Codec.
func (boolCodec) Append(dst []byte, v bool) ([]byte, error) {
	if v {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}

// Decode reads a truth value. See Codec.
func (boolCodec) Decode(b []byte) (bool, error) {
	switch {
	case len(b) != 1:
		return false, wrongLength(len(b), 1)
	case b[0] > 1:
		return false, fmt.Errorf("byte %#02x is no truth value: %w", b[0], kv.ErrCorrupt)
	}
	return b[0] == 1, nil
}

// String returns the Codec that stores a text in UTF-8 as it is.
func String() Codec[string] { return stringCodec{} }

type stringCodec struct{}

// Append appends v. A text that isn't valid UTF-8 is ErrMisuse. See Codec.
func (stringCodec) Append(dst []byte, v string) ([]byte, error) {
	if !utf8.ValidString(v) {
		return dst, fmt.Errorf("text is not valid UTF-8: %w", ErrMisuse)
	}
	return append(dst, v...), nil
}

// Decode reads a text. See Codec.
func (stringCodec) Decode(b []byte) (string, error) {
	if !utf8.Valid(b) {
		return "", fmt.Errorf("text is not valid UTF-8: %w", kv.ErrCorrupt)
	}
	return string(b), nil
}

// Bytes returns the Codec that stores bytes as they are. A nil slice is an empty one.
func Bytes() Codec[[]byte] { return bytesCodec{} }

type bytesCodec struct{}

// Append appends v. See Codec.
func (bytesCodec) Append(dst, v []byte) ([]byte, error) { return append(dst, v...), nil }

// Decode returns a copy of b, which is not nil. See Codec.
func (bytesCodec) Decode(b []byte) ([]byte, error) { return append(make([]byte, 0, len(b)), b...), nil }

// Time returns the Codec that stores a time as Unix milliseconds, as Int64 does; what is finer is cut off.
func Time() Codec[time.Time] { return timeCodec{} }

type timeCodec struct{}

// Append appends v. See Codec.
func (timeCodec) Append(dst []byte, v time.Time) ([]byte, error) {
	return int64Codec{}.Append(dst, v.UnixMilli())
}

// Decode reads a time, in UTC. See Codec.
func (timeCodec) Decode(b []byte) (time.Time, error) {
	ms, err := int64Codec{}.Decode(b)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(ms).UTC(), nil
}

// Empty returns the Codec of keys that say everything: the entries of an index, the members of a
// set. The value has no bytes.
func Empty() Codec[struct{}] { return emptyCodec{} }

type emptyCodec struct{}

// Append appends nothing. See Codec.
func (emptyCodec) Append(dst []byte, _ struct{}) ([]byte, error) { return dst, nil }

// Decode wants no bytes. See Codec.
func (emptyCodec) Decode(b []byte) (struct{}, error) {
	if len(b) != 0 {
		return struct{}{}, wrongLength(len(b), 0)
	}
	return struct{}{}, nil
}

// JSON returns the Codec that stores a T as JSON, by the rules of encoding/json.
func JSON[T any]() Codec[T] { return jsonCodec[T]{} }

type jsonCodec[T any] struct{}

// Append appends v. See Codec.
func (jsonCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return dst, err
	}
	return append(dst, b...), nil
}

// Decode reads a T. JSON that isn't one is kv.ErrCorrupt, and wraps what encoding/json
// says. See Codec.
func (jsonCodec[T]) Decode(b []byte) (v T, err error) {
	if err := json.Unmarshal(b, &v); err != nil {
		return *new(T), fmt.Errorf("%w: %w", err, kv.ErrCorrupt)
	}
	return v, nil
}

// Tuple returns the Codec that stores a packed tuple.
func Tuple() Codec[tuple.Tuple] { return tupleCodec{} }

type tupleCodec struct{}

// Append appends v. See Codec.
func (tupleCodec) Append(dst []byte, v tuple.Tuple) ([]byte, error) { return tuple.Append(dst, v) }

// Decode reads a tuple. See Codec.
func (tupleCodec) Decode(b []byte) (tuple.Tuple, error) {
	t, err := tuple.Unpack(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, kv.ErrCorrupt)
	}
	return t, nil
}

// Versionstamp returns the Codec that stores a place in the order of commits as 12 bytes: transaction and
// user. Put lets the commit fill in an incomplete one.
func Versionstamp() Codec[tuple.Versionstamp] { return versionstampCodec{} }

type versionstampCodec struct{}

// stampSize is the length of a stored versionstamp.
const stampSize = 10 + 2

// Append appends v. See Codec.
func (versionstampCodec) Append(dst []byte, v tuple.Versionstamp) ([]byte, error) {
	return binary.BigEndian.AppendUint16(append(dst, v.Transaction[:]...), v.User), nil
}

// Decode reads a versionstamp. See Codec.
func (versionstampCodec) Decode(b []byte) (tuple.Versionstamp, error) {
	if len(b) != stampSize {
		return tuple.Versionstamp{}, wrongLength(len(b), stampSize)
	}
	return tuple.Versionstamp{Transaction: [10]byte(b), User: binary.BigEndian.Uint16(b[10:])}, nil
}
