package itemstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/internal/overlay"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/metrics"
)

// env is what all transactions of a store share.
type env struct {
	keys    space
	schema  int // the version of the program's
	opts    Options
	meter   metrics.Meter
	maxPath int // the length of the longest packed path whose item can be deleted again
}

// A view is what a transaction reads: rows as the store has them, with what they become on top.
type view struct {
	*env
	tx    *txn.Tx
	types *types
	now   time.Time
	items map[string]*change   // what changes, by the packed primary path
	rows  overlay.Map[*record] // what the items' rows become, by their keys; nil for no row
}

// row reads the row of a key, or nil. Its item may have ended.
func (v *view) row(ctx context.Context, key []byte) (*record, error) {
	if p, ok := v.rows.Get(key); ok {
		return p.Pending, nil
	}
	b, ok, err := find(ctx, v.tx, key)
	if err != nil || !ok {
		return nil, err
	}
	return parseRecord(b)
}

// find reads the value of a key, and reports whether there is one.
func find(ctx context.Context, r kv.Reader, key []byte) ([]byte, bool, error) {
	b, err := r.Get(ctx, key, nil)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, false, nil
	}
	return b, err == nil, err
}

// A place is a row of an item at one of its paths.
type place struct {
	*keyPath
	path []byte // packed
	key  []byte // of the row
	*pathVersions
}

// row returns the row that an item has at the place; r is the primary one.
func (p place) row(r *record, primary []byte) *record {
	if p.pathVersions == &r.pathVersions {
		return r
	}
	return r.at(*p.pathVersions, p.Ref, primary)
}

// places returns the rows of an item, the primary one first; r is that one, and may be nil.
func (v *view) places(primary []byte, r *record) (list []place, err error) {
	if r == nil {
		return nil, nil
	}
	b, err := v.types.bound(r.typ)
	if err != nil {
		return nil, err
	}
	list = append(make([]place, 0, 1+len(r.paths)), place{b.newest.Paths[0], primary, v.keys.key(partItem, primary), &r.pathVersions})
	for i := range r.paths {
		e := &r.paths[i]
		p := b.newest.path(e.number)
		if p == nil {
			return nil, fmt.Errorf("itemstore: key path %d of %s: %w", e.number, b.newest.Name, ErrCorrupt)
		}
		list = append(list, place{p, e.key, v.keys.rowKey(p, e.key, primary), &e.pathVersions})
	}
	return list, nil
}

// A rowAt is a row with its key.
type rowAt struct {
	key []byte
	rec *record
}

// scan yields the rows of a range with what the transaction makes of them. They share memory
// that is theirs until the next one.
func (v *view) scan(ctx context.Context, start, end []byte, reverse bool) iter.Seq2[rowAt, error] {
	return func(yield func(rowAt, error) bool) {
		rows, stored := v.rows.Freeze(), record{}
		own := rows.Cursor(start, end, reverse)
		// upTo yields the rows of the transaction's up to a key, nil for all, and reports whether the sequence goes on.
		upTo := func(key []byte) bool {
			for ; own.Valid(); own.Next() {
				p := own.Point()
				if c := bytes.Compare(p.Key, key); key != nil && c != 0 && c < 0 == reverse {
					return true
				}
				if p.Pending != nil && !yield(rowAt{p.Key, p.Pending}, nil) {
					return false
				}
			}
			return true
		}
		for e, err := range v.tx.Scan(ctx, kv.Range{Start: start, End: end, Reverse: reverse}) {
			if err == nil {
				if !upTo(e.Key) {
					return
				}
				if _, replaced := rows.Get(e.Key); replaced {
					continue
				}
				err = stored.parse(e.Value)
			}
			if err != nil {
				yield(rowAt{}, err)
				return
			}
			if !yield(rowAt{e.Key, &stored}, nil) {
				return
			}
		}
		upTo(nil)
	}
}

// item returns the item of a row, which stands at a path, packed in key.
func (v *view) item(ctx context.Context, b *bound, r *record, key []byte, path Path) (Item, error) {
	primary, name := r.owner(key), path
	if r.kind != rowPrimary {
		var err error
		if name, err = unpackPath(primary); err != nil {
			return Item{}, err
		}
	}
	payload, err := v.payload(ctx, r, primary)
	if err != nil {
		return Item{}, err
	}
	r.size = len(payload)
	c, err := b.content(payload)
	if err != nil {
		return Item{}, fmt.Errorf("itemstore: %s: %w", clip(string(path)), err)
	}
	item := Item{path, b.Name, r.meta(name), c.v.Addr().Interface()}
	c.fill()
	c.setMeta(item.Meta)
	return item, nil
}

// appendItem appends the item of a row, which a caller asked for by its path; r may be nil.
func (v *view) appendItem(ctx context.Context, items []Item, r *record, key []byte, path Path) ([]Item, error) {
	if r == nil || r.expired(v.now) {
		return items, nil
	}
	b, err := v.types.bound(r.typ)
	if err != nil {
		return nil, err
	}
	if b.itemType == nil {
		return nil, fmt.Errorf("%w: %s is a %s", ErrUnknownType, clip(string(path)), b.newest.Name)
	}
	item, err := v.item(ctx, b, r, key, path)
	if err != nil {
		return nil, err
	}
	return append(items, item), nil
}

// payload returns the fields of a row's item as they are stored. That is what they were when the row was read, whatever
// the transaction has changed since: a row that isn't stored yet has them, and one that is leads to what is stored.
func (v *view) payload(ctx context.Context, r *record, primary []byte) ([]byte, error) {
	if r.whole != nil {
		return r.whole, nil
	}
	if r.kind == rowRef {
		b, ok, err := find(ctx, v.tx, v.keys.key(partItem, primary))
		p := &record{kind: rowRef}
		if err == nil && ok {
			err = p.parse(b)
		}
		if err != nil {
			return nil, err
		}
		if p.kind != rowPrimary {
			return nil, fmt.Errorf("itemstore: no item %s, to which an alias leads: %w", v.name(primary), ErrCorrupt)
		}
		r = p
	}
	if !r.chunked {
		return r.payload, nil
	}
	return keys.Get(ctx, v.keys.in(v.tx), chunkKey{primary})
}

// name returns the path that is packed in key, for the caller.
func (v *view) name(key []byte) Path {
	p, err := unpackPath(key)
	if err != nil {
		return Path(fmt.Sprintf("%x", key))
	}
	return p
}
