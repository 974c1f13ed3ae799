package docstore

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/tuple"
)

// pieceSize is the length of a value, and of each piece but the last of a longer one.
const pieceSize = 90_000

// Bounds are what transactions do at most. They are variables so that tests reach them with few documents.
type bounds struct {
	explode int // members of an array that one transaction makes rows of
	segment int // documents of a segment of a text index
	inline  int // documents that a transaction adds to a category, catalogue or index that it creates
	build   int // documents that one transaction of a build looks at
	delete  int // entities that one transaction of Store.Delete deletes
}

// A meta is the row that says what a store is.
type meta struct {
	Version int `json:"v"`
	// Arrays: sets may lie in arrays.
	Arrays bool `json:"arrays,omitempty"`
	// Importing: an import is under way, or was cut off.
	Importing bool `json:"importing,omitempty"`
}

// A reader reads rows of a store: keys are without its prefix.
type reader struct{ kv.Reader }

// get returns the value of a key that is never in pieces, and whether there is one.
func (r reader) get(ctx context.Context, key string) ([]byte, bool, error) {
	b, err := r.Get(ctx, []byte(key), nil)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, false, nil
	}
	return b, err == nil, err
}

// find returns the value of a key, whole, and whether there is one.
func (r reader) find(ctx context.Context, key string) ([]byte, bool, error) {
	b, ok, err := r.get(ctx, key)
	if ok || err != nil {
		return b, ok, err
	}
	n := uint32(0)
	for e, err := range r.Scan(ctx, kv.Range{Start: piece(key, 0), End: []byte(key + "\x00\x01")}) {
		if err != nil {
			return nil, false, err
		}
		if string(e.Key) != string(piece(key, n)) {
			return nil, false, fmt.Errorf("%w: %s lacks a piece", ErrCorrupt, clip(key))
		}
		b = append(b, e.Value...)
		n++
	}
	return b, n > 0, nil
}

// findJSON decodes the value of a key into v, and reports whether there is one.
func (r reader) findJSON(ctx context.Context, key string, v any) (bool, error) {
	b, ok, err := r.get(ctx, key)
	if err == nil && ok {
		err = parseJSON(key, b, v)
	}
	return ok, err
}

// prefixed yields the rows whose keys begin with prefix, from the one behind after on, without prefix.
func (r reader) prefixed(ctx context.Context, prefix, after string) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		start := prefix + after
		if after != "" {
			start += "\x00"
		}
		for e, err := range r.Scan(ctx, kv.Range{Start: []byte(start), End: above(prefix)}) {
			if err == nil {
				e.Key = e.Key[len(prefix):]
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// above returns the end of the range of keys that begin with prefix, whose last byte is not ff.
func above(prefix string) []byte {
	b := []byte(prefix)
	b[len(b)-1]++
	return b
}

// piece returns the key of a piece of a value.
func piece(key string, n uint32) []byte {
	return binary.BigEndian.AppendUint32(append([]byte(key), 0), n)
}

// parseJSON decodes a row.
func parseJSON(key string, b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, clip(key), err)
	}
	return nil
}

// rows are a store's rows in a transaction.
type rows struct {
	reader
	w    *keys.Scope
	snap reader // reads that don't count
	meta meta
	// compat: small sets are written as arrays.
	compat bool
	bounds *bounds
}

// newRows returns the rows of the store in sub.
func newRows(tx *txn.Tx, sub tuple.Subspace, compat bool, b *bounds) *rows {
	s := keys.In(tx, sub)
	return &rows{reader: reader{s}, w: s, snap: reader{keys.ReadIn(tx.Snapshot(), sub)}, compat: compat, bounds: b}
}

// put stores a value of any length. was is the length of the one that it replaces, or 0.
func (r *rows) put(key string, value []byte, was int) error {
	if was > pieceSize || was > 0 && len(value) > pieceSize {
		if err := r.clear(key, was); err != nil {
			return err
		}
	}
	if len(value) <= pieceSize {
		return r.w.Set([]byte(key), value)
	}
	for n := uint32(0); len(value) > 0; n++ {
		size := min(len(value), pieceSize)
		if err := r.w.Set(piece(key, n), value[:size]); err != nil {
			return err
		}
		value = value[size:]
	}
	return nil
}

// clear removes a value that is was bytes long.
func (r *rows) clear(key string, was int) error {
	if was > pieceSize {
		return r.w.ClearRange(piece(key, 0), []byte(key+"\x00\x01"))
	}
	return r.w.Clear([]byte(key))
}

// putJSON stores v as JSON.
func (r *rows) putJSON(key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return r.w.Set([]byte(key), b)
}

// clearPrefix removes the rows whose keys begin with prefix.
func (r *rows) clearPrefix(prefix string) error { return r.w.ClearRange([]byte(prefix), above(prefix)) }
