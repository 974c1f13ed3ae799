package txn

import (
	"context"
	"errors"
	"iter"

	"github.com/greenroomdb/greenroom/kv"
)

// A Selector selects a key by its place among those that exist: it begins at the last
// key before Key (with OrEqual: or Key itself), and goes Offset keys further, or back if
// that is negative. The four that are mostly wanted have functions.
//
// https://apple.github.io/foundationdb/developer-guide.html#key-selectors
type Selector struct {
	Key     []byte
	OrEqual bool
	Offset  int
}

// FirstGreaterOrEqual selects the first key that isn't before key.
func FirstGreaterOrEqual(key []byte) Selector { return Selector{Key: key, Offset: 1} }

// FirstGreaterThan selects the first key after key.
func FirstGreaterThan(key []byte) Selector { return Selector{Key: key, OrEqual: true, Offset: 1} }

// LastLessThan selects the last key before key.
func LastLessThan(key []byte) Selector { return Selector{Key: key} }

// LastLessOrEqual selects the last key that isn't after key.
func LastLessOrEqual(key []byte) Selector { return Selector{Key: key, OrEqual: true} }

// A SelectorRange is the keys from the one that Begin selects to the one before what
// End selects. A Selector that goes beyond the first or the last key stands for what
// is before all keys, or after.
type SelectorRange struct {
	Begin, End Selector
	// Limit and Reverse are those of Range.
	Limit   int
	Reverse bool
}

func (tx *Tx) getKey(ctx context.Context, sel Selector, dst []byte, serial bool) ([]byte, error) {
	// The border between the keys that Offset counts forwards and those before.
	border := append(make([]byte, 0, len(sel.Key)+1), sel.Key...)
	if sel.OrEqual {
		border = append(border, 0)
	}
	r := kv.Range{Start: border, Limit: sel.Offset}
	if sel.Offset < 1 {
		r = kv.Range{End: border, Limit: 1 - sel.Offset, Reverse: true}
	}
	n := 0
	for e, err := range tx.scan(ctx, r, serial) {
		if err != nil {
			return dst, err
		}
		if n++; n == r.Limit {
			return append(dst, e.Key...), nil
		}
	}
	return dst, kv.ErrNotFound
}

func (tx *Tx) scanSelectors(ctx context.Context, r SelectorRange, serial bool) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		plain := kv.Range{Limit: r.Limit, Reverse: r.Reverse}
		var err error
		if plain.Start, err = tx.getKey(ctx, r.Begin, nil, serial); errors.Is(err, kv.ErrNotFound) {
			if r.Begin.Offset > 0 {
				return // after all keys
			}
			err = nil
		}
		if err == nil {
			plain.End, err = tx.getKey(ctx, r.End, nil, serial)
		}
		if errors.Is(err, kv.ErrNotFound) {
			if r.End.Offset < 1 {
				return // before all keys
			}
			err = nil
		}
		if err != nil {
			yield(kv.Entry{}, err)
			return
		}
		tx.scan(ctx, plain, serial)(yield)
	}
}
