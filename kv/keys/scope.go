package keys

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/tuple"
)

// A ReadWriter reads and changes one store; a transaction is one.
type ReadWriter interface {
	kv.Reader
	Writer
}

// A Scope is the keys of a store that begin with the prefix of a subspace, without
// that prefix: what is read through it and what is written through it, single keys
// and ranges alike, lies in the subspace, and keys come back as they went in. Nothing
// done through a Scope touches a key outside of it, also not a range without bounds.
//
// It is a Mutator and a Stamper if what it stands on is one. It is as safe for concurrent use as what it stands on.
type Scope struct {
	readScope
	w Writer
}

var (
	_ ReadWriter = (*Scope)(nil)
	_ Mutator    = (*Scope)(nil)
	_ Stamper    = (*Scope)(nil)
)

// In returns the scope of sub in rw. Scopes can stand on each other.
func In(rw ReadWriter, sub tuple.Subspace) *Scope {
	return &Scope{readScope{rw, sub.Bytes()}, rw}
}

// ReadIn is In for what only reads: Tx.Snapshot, a Snapshot or an Engine.
func ReadIn(r kv.Reader, sub tuple.Subspace) kv.Reader { return &readScope{r, sub.Bytes()} }

// WriteIn is In for what only writes: Ops.
func WriteIn(w Writer, sub tuple.Subspace) Writer {
	return &Scope{readScope{nil, sub.Bytes()}, w}
}

// readScope is the half of a Scope that reads.
type readScope struct {
	r      kv.Reader
	prefix []byte
}

// Get is Get of the key in the scope. See Reader.
func (s *readScope) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	buf := getScratch()
	defer buf.release()
	buf.value = s.appendKey(buf.value[:0], key)
	return s.r.Get(ctx, buf.value, dst)
}

// Scan is Scan of the range in the scope; the keys it yields are without the prefix.
// See Reader.
func (s *readScope) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		r := r // the sequence may be run again
		r.Start, r.End = s.span(r.Start, r.End)
		for e, err := range s.r.Scan(ctx, r) {
			key, ok := bytes.CutPrefix(e.Key, s.prefix)
			switch {
			case err != nil:
			case !ok:
				err = fmt.Errorf("keys: scan of [%x, %x) yields the key %x: %w", r.Start, r.End, e.Key, kv.ErrCorrupt)
			default:
				e.Key = key
			}
			if err != nil {
				yield(kv.Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (s *readScope) appendKey(dst, key []byte) []byte {
	return append(append(dst, s.prefix...), key...)
}

// span returns the bounds of [start, end) in the scope; a nil end is the end of the
// scope.
func (s *readScope) span(start, end []byte) (from, to []byte) {
	from = s.appendKey(nil, start)
	if end == nil {
		return from, kv.PrefixEnd(s.prefix)
	}
	return from, s.appendKey(nil, end)
}

// Set stores value under the key in the scope. See Writer.
func (s *Scope) Set(key, value []byte) error {
	return s.with(key, func(key []byte) error { return s.w.Set(key, value) })
}

// Clear removes the key in the scope. See Writer.
func (s *Scope) Clear(key []byte) error { return s.with(key, s.w.Clear) }

// ClearRange removes the keys of the range in the scope; without an end all from start
// on that are in the scope. See Writer.
func (s *Scope) ClearRange(start, end []byte) error {
	return s.w.ClearRange(s.span(start, end))
}

// Atomic mutates the key in the scope. It is kv.ErrUnsupported if the scope doesn't stand
// on a Mutator.
func (s *Scope) Atomic(m txn.Mutation, key, param []byte) error {
	w, ok := s.w.(Mutator)
	if !ok {
		return fmt.Errorf("atomic operations: %w", kv.ErrUnsupported)
	}
	return s.with(key, func(key []byte) error { return w.Atomic(m, key, param) })
}

// SetVersionstampedKey stores value under a key in the scope. It is kv.ErrUnsupported if
// the scope doesn't stand on a Stamper. See Stamper.
func (s *Scope) SetVersionstampedKey(key, value []byte) error {
	w, ok := s.w.(Stamper)
	switch {
	case !ok:
		return fmt.Errorf("versionstamps: %w", kv.ErrUnsupported)
	case len(key) < 4:
		return fmt.Errorf("%w: versionstamped key without an offset", kv.ErrInvalid)
	}
	offset := binary.LittleEndian.Uint32(key[len(key)-4:])
	if int64(offset) > int64(len(key)) { // far enough to come round to the prefix
		return fmt.Errorf("%w: versionstamp at offset %d of a key of %d bytes", kv.ErrInvalid, offset, len(key)-4)
	}
	return s.with(key, func(key []byte) error {
		binary.LittleEndian.PutUint32(key[len(key)-4:], offset+uint32(len(s.prefix)))
		return w.SetVersionstampedKey(key, value)
	})
}

// SetVersionstampedValue stores a value under the key in the scope. It is
// kv.ErrUnsupported if the scope doesn't stand on a Stamper. See Stamper.
func (s *Scope) SetVersionstampedValue(key, value []byte) error {
	w, ok := s.w.(Stamper)
	if !ok {
		return fmt.Errorf("versionstamps: %w", kv.ErrUnsupported)
	}
	return s.with(key, func(key []byte) error { return w.SetVersionstampedValue(key, value) })
}

// with calls f with the whole key, which is scratch memory.
func (s *Scope) with(key []byte, f func(key []byte) error) error {
	buf := getScratch()
	defer buf.release()
	buf.value = s.appendKey(buf.value[:0], key)
	return f(buf.value)
}
