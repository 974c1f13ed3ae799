// Package keys gives keys and values types: a struct says once what the elements of its keys are and what is stored under
// them, and the compiler knows from then on which value a key leads to. Keys are tuples, so keys of one type sort by their
// elements, and a FoundationDB program with the tuple layer reads them.
//
// The functions read from anything that is a kv.Reader (an engine, a snapshot, a transaction of package txn), and write to
// anything that is a Writer (a transaction, or Ops for a commit made by hand).
package keys

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// A Key is a type of keys, all of whose values are of one type V. It is a struct that
// says two things of itself: what its elements are, through its pointer, and how its
// values are stored.
//
//	// WorkflowID is (actor, data, ACTOR, workflow id): the workflow that runs in it.
//	type WorkflowID struct{ Actor tuple.UUID }
//
//	func (k *WorkflowID) Elements(e *keys.Elements) {
//		e.Const(actor, data)
//		e.UUID(&k.Actor)
//		e.Const(workflowID)
//	}
//
//	func (WorkflowID) Value() keys.Codec[int64] { return keys.Int64() }
//
// That is all: Get, Put, All and the other functions here take it from there, and the
// compiler finds V and P by itself. A key is packed as a tuple, so keys of a type sort
// as their elements do. Constants are what keeps types apart that lie in one subspace.
//
// Subspaces have types, too, with nothing but the method Elements; a Key can embed
// one, so that what they share is written once. See Sub.
type Key[V any] interface {
	// Value returns the codec of the key's value. Mostly it is the same for all keys of
	// the type; it may know the key, for better errors. Either all of them are chunked
	// or none.
	Value() Codec[V]
}

// A Pointer is the pointer to a key type or a subspace type K.
type Pointer[K any] interface {
	*K
	// Elements goes through the elements of the key, and does nothing else. It is the
	// same for every key of the type.
	Elements(e *Elements)
}

// Get returns the value of key. A missing key is kv.ErrNotFound; see Find. An error is a
// *Error. Getting a value of fixed size allocates nothing.
func Get[K Key[V], V any, P Pointer[K]](ctx context.Context, r kv.Reader, key K) (V, error) {
	v, ok, err := Find[K, V, P](ctx, r, key)
	if err == nil && !ok {
		packed, _ := Append[K, P](nil, key)
		err = keyError[K](opGet, packed, kv.ErrNotFound)
	}
	return v, err
}

// Find returns the value of key, and whether there is one. An error is a *Error.
func Find[K Key[V], V any, P Pointer[K]](ctx context.Context, r kv.Reader, key K) (v V, ok bool, err error) {
	s := getScratch()
	defer s.release()
	packed, err := packComplete[K, P](s, key)
	if err != nil {
		return v, false, keyError[K](opGet, packed, err)
	}
	codec := key.Value()
	if _, chunks := codec.(chunker); chunks {
		s.value, ok, err = readChunks(ctx, r, packed, s.value[:0])
	} else {
		s.value, ok, err = read(ctx, r, packed, s.value[:0])
	}
	if ok {
		v, err = codec.Decode(s.value)
		ok = err == nil
	}
	if err != nil {
		return v, false, keyError[K](opGet, packed, err)
	}
	return v, ok, nil
}

// read is Get of r for a key that may be missing.
func read(ctx context.Context, r kv.Reader, key, dst []byte) (value []byte, ok bool, err error) {
	value, err = r.Get(ctx, key, dst)
	if errors.Is(err, kv.ErrNotFound) {
		return value, false, nil
	}
	return value, err == nil, err
}

// Exists reports whether key has a value. The value isn't looked at, so a damaged one
// exists as well. An error is a *Error.
func Exists[K Key[V], V any, P Pointer[K]](ctx context.Context, r kv.Reader, key K) (ok bool, err error) {
	s := getScratch()
	defer s.release()
	packed, err := packComplete[K, P](s, key)
	if err == nil {
		if _, chunks := key.Value().(chunker); chunks {
			ok, err = anyChunk(ctx, r, packed)
		} else {
			s.value, ok, err = read(ctx, r, packed, s.value[:0])
		}
	}
	if err != nil {
		return false, keyError[K](opExists, packed, err)
	}
	return ok, nil
}

// Put stores v under key. An incomplete versionstamp in the key (see
// Elements.Versionstamp), or as the value (see Versionstamp), is filled in when the
// transaction commits; w must be a Stamper then. An error is a *Error.
func Put[K Key[V], V any, P Pointer[K]](w Writer, key K, v V) error {
	s := getScratch()
	defer s.release()
	packed, err := packKey[K, P](s, key)
	if err != nil {
		return keyError[K](opPut, packed, err)
	}
	codec := key.Value()
	s.value, err = codec.Append(s.value[:0], v)
	if err == nil {
		if _, chunks := codec.(chunker); chunks {
			err = putChunks(w, s)
		} else if _, stamp := any(codec).(versionstampCodec); stamp || s.e.stamps > 0 {
			err = putStamped(w, s, stamp)
		} else {
			err = w.Set(packed, s.value)
		}
	}
	if err != nil {
		return keyError[K](opPut, packed, err)
	}
	return nil
}

// Delete removes key and its value; a missing key is fine. An error is a
// *Error.
func Delete[K Key[V], V any, P Pointer[K]](w Writer, key K) error {
	s := getScratch()
	defer s.release()
	packed, err := packComplete[K, P](s, key)
	if err == nil {
		if _, chunks := key.Value().(chunker); chunks {
			err = w.ClearRange(tuple.Range(packed))
		} else {
			err = w.Clear(packed)
		}
	}
	if err != nil {
		return keyError[K](opDelete, packed, err)
	}
	return nil
}

// DeleteSubspace removes all keys in sub, of whatever type. The key that is the
// prefix of sub itself isn't in it.
func DeleteSubspace(w Writer, sub tuple.Subspace) error {
	if err := w.ClearRange(sub.Range()); err != nil {
		return fmt.Errorf("keys: delete subspace %s: %w", keyWords(sub.Bytes()), err)
	}
	return nil
}

// Sub returns the subspace that begins with the elements of key, which can be of any
// type with a method Elements: a subspace type, mostly. It panics if an element can't
// be packed, as tuple.NewSubspace does.
func Sub[K any, P Pointer[K]](key K) tuple.Subspace {
	packed, err := Append[K, P](nil, key)
	if err != nil {
		panic(err.Error())
	}
	return tuple.FromBytes(packed)
}

// Append appends the packed key to dst and returns the extended slice, for what
// takes bytes. An element that can't be packed is tuple.ErrUnsupported, and then dst
// is returned as it was.
func Append[K any, P Pointer[K]](dst []byte, key K) ([]byte, error) {
	s := getScratch()
	defer s.release()
	packed, err := packKey[K, P](s, key)
	if err != nil {
		return dst, fmt.Errorf("keys: pack %s: %w", reflect.TypeFor[K](), err)
	}
	return append(dst, packed...), nil
}

// Parse unpacks a key. Bytes that aren't one of this type, or go on behind it, are
// ErrOtherKey.
func Parse[K any, P Pointer[K]](packed []byte) (K, error) {
	var key, none K
	var e Elements
	ok, err := unpackKey(&e, P(&key), packed)
	switch {
	case err != nil:
		return none, fmt.Errorf("keys: unpack %s: %w", reflect.TypeFor[K](), err)
	case !ok || len(e.buf) > 0:
		return none, fmt.Errorf("keys: %s is no %s: %w", keyWords(packed), reflect.TypeFor[K](), ErrOtherKey)
	}
	return key, nil
}

// ParseEntry is Parse of the entry's key, and decodes its value. A value that is
// damaged comes as a *Error. An entry is one piece of a chunked value at most, so
// for those it is ErrOtherKey; see All.
func ParseEntry[K Key[V], V any, P Pointer[K]](e kv.Entry) (key K, v V, err error) {
	if key, err = Parse[K, P](e.Key); err != nil {
		return key, v, err
	}
	codec := key.Value()
	if _, chunks := codec.(chunker); chunks {
		return key, v, fmt.Errorf("keys: %s has chunked values: %w", reflect.TypeFor[K](), ErrOtherKey)
	}
	if v, err = codec.Decode(e.Value); err != nil {
		return key, v, keyError[K](opParse, e.Key, err)
	}
	return key, v, nil
}

// unpackKey fills the key that p points to from packed, and reports whether it is
// one of its type. What follows its elements is left in e.buf. An error is a mistake
// in the type.
func unpackKey[K any, P Pointer[K]](e *Elements, p P, packed []byte) (ok bool, err error) {
	e.unpack(packed)
	p.Elements(e)
	if e.err != nil && e.err != errOther {
		return false, e.err
	}
	return e.err == nil, nil
}

// packKey packs key into s.
func packKey[K any, P Pointer[K]](s *scratch, key K) ([]byte, error) {
	p := boxOf[K, P](s)
	*p = key
	s.e.pack(s.e.buf[:0])
	p.Elements(&s.e)
	*p = *new(K) // keeps nothing of the caller's alive
	return s.e.packed()
}

// packComplete is packKey for what an incomplete versionstamp makes no sense for.
func packComplete[K any, P Pointer[K]](s *scratch, key K) ([]byte, error) {
	packed, err := packKey[K, P](s, key)
	if err == nil && s.e.stamps > 0 {
		err = fmt.Errorf("the versionstamp in it is incomplete: %w", ErrMisuse)
	}
	return packed, err
}

// A scratch is memory for one call: a key, its bytes and those of its value are
// handed to code that isn't known here, and would be allocated by every call.
type scratch struct {
	e     Elements
	value []byte
	// boxes are pointers to keys of the types that were packed lately.
	boxes [8]any
	next  int // where in boxes the next type goes
}

// scratches holds what isn't in use. It is memory, and nothing else: what is in it means nothing to the next user.
var scratches = sync.Pool{New: func() any { return new(scratch) }}

func getScratch() *scratch { return scratches.Get().(*scratch) }

// maxScratch is the largest buffer that is kept, in bytes.
const maxScratch = 1 << 16

func (s *scratch) release() {
	if cap(s.value) > maxScratch {
		s.value = nil
	}
	if cap(s.e.buf) > maxScratch {
		s.e.buf = nil
	}
	scratches.Put(s)
}

// boxOf returns a place for a K that isn't on the stack.
func boxOf[K any, P Pointer[K]](s *scratch) P {
	for _, b := range s.boxes {
		if p, ok := b.(P); ok {
			return p
		}
	}
	p := P(new(K))
	s.boxes[s.next] = p
	s.next = (s.next + 1) % len(s.boxes)
	return p
}
