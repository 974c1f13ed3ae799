package keys

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/tuple"
)

// A Writer takes changes. A transaction is one; so is Ops.
type Writer interface {
	// Set stores value under key.
	Set(key, value []byte) error
	// Clear removes key; a missing key is fine.
	Clear(key []byte) error
	// ClearRange removes every key in [start, end). Without an end it is kv.ErrInvalid.
	ClearRange(start, end []byte) error
}

// A Mutator is a Writer that takes atomic operations.
type Mutator interface {
	Writer
	// Atomic replaces the value of key by what m makes of it and of param when the
	// transaction commits.
	Atomic(m txn.Mutation, key, param []byte) error
}

// A Stamper is a Writer that takes keys and values in which the commit fills in its
// versionstamp, in the form that tuple.PackWithVersionstamp describes: the last 4
// bytes are the offset of the 10 bytes that are filled in, little-endian, and are cut
// off.
type Stamper interface {
	Writer
	// SetVersionstampedKey stores value under the key that key becomes.
	SetVersionstampedKey(key, value []byte) error
	// SetVersionstampedValue stores what value becomes under key.
	SetVersionstampedValue(key, value []byte) error
}

// Add adds n to the value of key when the transaction commits, whatever it is by then:
// it reads nothing, and transactions that add to the same key don't conflict. A
// missing value counts as 0; it wraps around. The codec of the key must be Counter,
// or the error is ErrMisuse. An error is a *Error.
func Add[K Key[int64], P Pointer[K]](w Mutator, key K, n int64) error {
	if _, ok := key.Value().(counterCodec); !ok {
		packed, _ := Append[K, P](nil, key)
		return keyError[K](opMutate, packed, fmt.Errorf("values of the codec %T can't be added to: %w", key.Value(), ErrMisuse))
	}
	return Mutate[K, int64, P](w, txn.MutationAdd, key, n)
}

// Mutate is an atomic operation on the value of key, with v as its parameter. m works
// on bytes: what it means for values is up to the codec. MutationByteMax keeps the
// larger one of Uint64 and Time (since 1970), and the later string; MutationAdd is
// for Counter, see Add; MutationCompareAndClear is for all. An error is a *Error.
func Mutate[K Key[V], V any, P Pointer[K]](w Mutator, m txn.Mutation, key K, v V) error {
	s := getScratch()
	defer s.release()
	packed, err := packComplete[K, P](s, key)
	if err == nil {
		codec := key.Value()
		s.value, err = codec.Append(s.value[:0], v)
		if _, chunks := codec.(chunker); chunks {
			err = fmt.Errorf("mutation %s of a chunked value: %w", m, ErrMisuse)
		}
	}
	if err == nil {
		err = w.Atomic(m, packed, s.value)
	}
	if err != nil {
		return keyError[K](opMutate, packed, err)
	}
	return nil
}

// putStamped stores the value in s under the key in s. One of them may have a
// versionstamp that is incomplete; stamp says that the value is one at all.
func putStamped(w Writer, s *scratch, stamp bool) error {
	unknown := tuple.IncompleteVersionstamp(0).Transaction
	stamp = stamp && bytes.HasPrefix(s.value, unknown[:])
	if s.e.stamps == 0 && !stamp {
		return w.Set(s.e.buf, s.value)
	}
	st, ok := w.(Stamper)
	switch {
	case s.e.stamps > 0 && stamp:
		return fmt.Errorf("versionstamps in key and value: %w", ErrMisuse)
	case !ok:
		return fmt.Errorf("versionstamps: %w", kv.ErrUnsupported)
	case stamp:
		s.value = binary.LittleEndian.AppendUint32(s.value, 0)
		return st.SetVersionstampedValue(s.e.buf, s.value)
	}
	n := len(s.e.buf)
	s.e.buf = binary.LittleEndian.AppendUint32(s.e.buf, uint32(s.e.stampAt))
	err := st.SetVersionstampedKey(s.e.buf, s.value)
	s.e.buf = s.e.buf[:n]
	return err
}

// Ops collects the changes of a Commit: it is the Writer for commits without a transaction. The zero value is ready, and not safe for concurrent use.
//
//	var changes keys.Ops
//	err := keys.Put(&changes, key, value)
//	…
//	err = engine.Commit(ctx, &kv.Commit{Ops: changes})
type Ops []kv.Op

// Set appends the Op. It copies key and value.
func (o *Ops) Set(key, value []byte) error {
	b := append(append(make([]byte, 0, len(key)+len(value)), key...), value...)
	n := len(key)
	*o = append(*o, kv.Set(b[:n:n], b[n:]))
	return nil
}

// Clear appends the Op. It copies key.
func (o *Ops) Clear(key []byte) error {
	*o = append(*o, kv.Clear(bytes.Clone(key)))
	return nil
}

// ClearRange appends the Op. It copies start and end.
func (o *Ops) ClearRange(start, end []byte) error {
	if len(end) == 0 {
		return fmt.Errorf("%w: clear range without an end", kv.ErrInvalid)
	}
	*o = append(*o, kv.ClearRange(bytes.Clone(start), bytes.Clone(end)))
	return nil
}
