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

// rows are a store's rows in a transaction; keys are without the store's prefix.
//
// The first read or write that fails ends the transaction: from then on reads find nothing, writes do nothing, and err is why.
// So what is done with rows looks at err where it matters, at the end: in Store.Update, and where a method returns to
// the caller.
type rows struct {
	*state
	r kv.Reader
}

// A state is what is common to all reads and writes of a transaction.
type state struct {
	w      *keys.Scope
	snap   kv.Reader // reads that don't count
	meta   meta
	compat bool // small sets are written as arrays
	bounds *bounds
	err    error
}

// newRows returns the rows of the store in sub.
func newRows(tx *txn.Tx, sub tuple.Subspace, compat bool, b *bounds) rows {
	s := keys.In(tx, sub)
	return rows{&state{w: s, snap: keys.ReadIn(tx.Snapshot(), sub), compat: compat, bounds: b}, s}
}

// uncounted returns the same rows with reads that can't make the transaction conflict.
func (r rows) uncounted() rows { return rows{r.state, r.snap} }

// fail ends the transaction, unless err is nil.
func (s *state) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// corrupt ends the transaction because of what is stored under a key.
func (s *state) corrupt(key string, format string, args ...any) {
	s.fail(fmt.Errorf("%w: %q: %w", ErrCorrupt, clip(key), fmt.Errorf(format, args...)))
}

// get returns the value of a key that is never in pieces, and whether there is one.
func (r rows) get(ctx context.Context, key string) ([]byte, bool) {
	if r.err != nil {
		return nil, false
	}
	b, err := r.r.Get(ctx, []byte(key), nil)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		r.fail(err)
	}
	return b, err == nil
}

// find returns the value of a key, whole, and whether there is one.
func (r rows) find(ctx context.Context, key string) ([]byte, bool) {
	b, ok := r.get(ctx, key)
	if ok {
		return b, true
	}
	n := uint32(0)
	for k, v := range r.scan(ctx, kv.Range{Start: piece(key, 0), End: []byte(key + "\x00\x01")}) {
		if k != string(piece(key, n)) {
			r.corrupt(key, "piece %d is missing", n)
		}
		b = append(b, v...)
		n++
	}
	return b, n > 0 && r.err == nil
}

// findJSON decodes the value of a key into v, and reports whether there is one.
func (r rows) findJSON(ctx context.Context, key string, v any) bool {
	b, ok := r.get(ctx, key)
	if ok {
		if err := json.Unmarshal(b, v); err != nil {
			r.corrupt(key, "%w", err)
		}
	}
	return ok && r.err == nil
}

// scan yields the keys and values of a range. The values are the engine's.
func (r rows) scan(ctx context.Context, rg kv.Range) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		if r.err != nil {
			return
		}
		for e, err := range r.r.Scan(ctx, rg) {
			if r.fail(err); err != nil || !yield(string(e.Key), e.Value) || r.err != nil {
				return
			}
		}
	}
}

// prefixed yields the rows whose keys begin with prefix, from the one behind after on, without prefix.
func (r rows) prefixed(ctx context.Context, prefix, after string) iter.Seq2[string, []byte] {
	start := prefix + after
	if after != "" {
		start += "\x00"
	}
	return func(yield func(string, []byte) bool) {
		for k, v := range r.scan(ctx, kv.Range{Start: []byte(start), End: above(prefix)}) {
			if !yield(k[len(prefix):], v) {
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

// set stores a value of at most pieceSize bytes.
func (s *state) set(key string, value []byte) {
	if s.err == nil {
		s.fail(s.w.Set([]byte(key), value))
	}
}

// put stores a value of any length. was is the length of the one that it replaces, or 0.
func (s *state) put(key string, value []byte, was int) {
	if was > pieceSize || was > 0 && len(value) > pieceSize {
		s.clear(key, was)
	}
	if len(value) <= pieceSize {
		s.set(key, value)
		return
	}
	for n := uint32(0); len(value) > 0; n++ {
		size := min(len(value), pieceSize)
		s.set(string(piece(key, n)), value[:size])
		value = value[size:]
	}
}

// putJSON stores v as JSON.
func (s *state) putJSON(key string, v any) {
	b, err := json.Marshal(v)
	s.fail(err)
	s.set(key, b)
}

// clear removes a value that is was bytes long.
func (s *state) clear(key string, was int) {
	if was > pieceSize {
		s.clearRange(string(piece(key, 0)), []byte(key+"\x00\x01"))
	} else {
		s.unset(key)
	}
}

// unset removes a value that isn't in pieces.
func (s *state) unset(key string) {
	if s.err == nil {
		s.fail(s.w.Clear([]byte(key)))
	}
}

// clearPrefix removes the rows whose keys begin with prefix.
func (s *state) clearPrefix(prefix string) { s.clearRange(prefix, above(prefix)) }

func (s *state) clearRange(start string, end []byte) {
	if s.err == nil {
		s.fail(s.w.ClearRange([]byte(start), end))
	}
}
