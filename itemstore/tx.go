package itemstore

import (
	"context"
	"iter"
	"slices"

	"github.com/greenroomdb/greenroom/kv/txn"
)

// A Tx is a transaction of a Store: its reads are of one state, with its own changes
// on top. See Store.Update.
type Tx struct {
	p        *putter
	readOnly bool
	flushed  bool
}

// Update has fn change the item at a path, and puts it, in a transaction of its own. It
// returns the item as it was stored. fn may run more than once; an error of fn changes nothing.
// Errors are those of Get and Tx.Put.
func Update[T any](ctx context.Context, s *Store, path Path, fn func(item *T) error) (item *T, err error) {
	err = s.Update(ctx, func(tx *Tx) (err error) {
		if item, err = Get[T](ctx, tx, path); err != nil {
			return err
		}
		if err := fn(item); err != nil {
			return err
		}
		return tx.Put(ctx, item, nil)
	})
	if err != nil {
		return nil, err
	}
	return item, nil
}

// Flush writes what the transaction has changed to the one that Begin was given. It is called once, and nothing
// is put afterwards.
func (tx *Tx) Flush(ctx context.Context) error {
	tx.flushed = true
	return tx.p.flush(ctx)
}

// changes returns why nothing can be changed.
func (tx *Tx) changes() error {
	switch {
	case tx.readOnly:
		return txn.ErrReadOnly
	case tx.flushed:
		return txn.ErrUsedAfterCommit
	}
	return nil
}

// Landed tells the items that were put which versions they have, after the commit of the transaction that Begin
// was given.
func (tx *Tx) Landed() {
	stamp, err := tx.p.tx.Versionstamp()
	if err != nil {
		return // it has changed nothing
	}
	for _, d := range tx.p.put {
		if d.ch.new == d.rec { // not put or deleted once more
			d.rec.stamp = Version(stamp)
			d.c.setMeta(d.rec.meta(tx.p.name(d.ch.key)))
		}
	}
}

// Undo takes back the IDs that were made, and the metadata, if the transaction that Begin was given hasn't been
// committed. tx may be nil.
func (tx *Tx) Undo() {
	if tx == nil {
		return
	}
	for _, d := range slices.Backward(tx.p.put) {
		d.c.setMeta(d.was)
	}
	tx.p.put = nil
	tx.p.undo(0)
}

// Items returns the items at the paths; see Reader.
func (tx *Tx) Items(ctx context.Context, paths ...Path) ([]Item, error) {
	v, items := &tx.p.view, []Item(nil)
	for _, p := range paths {
		key, err := v.types.shapes.item(p)
		if err != nil {
			return nil, err
		}
		r, err := v.row(ctx, v.keys.key(partItem, key))
		if err == nil {
			items, err = v.appendItem(ctx, items, r, key, p)
		}
		if err != nil {
			return nil, err
		}
	}
	return items, nil
}

// List yields the items whose paths begin with prefix, whole segments of it, in the order of
// the paths: of all types at once. A prefix has at least a group, and may end in a
// namespace: /course-MATH321/year is /course-MATH321/year itself and all of its years. An empty prefix
// means all items of the store, each once, at its primary path.
//
// Items of types that the schema lacks are left out, and so are those whose time is over. An error
// is yielded once, with a zero Item, and ends the sequence. What the transaction
// puts while the loop runs isn't seen by it.
func (tx *Tx) List(ctx context.Context, prefix Path, opts *ListOptions) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		q, err := tx.p.types.query(tx.p.env, prefix, opts)
		if err != nil {
			yield(Item{}, err)
			return
		}
		left := q.opts.Limit // without one it is below 0 from the first item on
		for row, err := range tx.p.scan(ctx, q.start, q.end, q.opts.Reverse) {
			item, ok, err := q.listed(ctx, &tx.p.view, row, err)
			if err != nil {
				yield(Item{}, err)
				return
			}
			if !ok {
				continue
			}
			if left--; !yield(item, nil) || left == 0 {
				return
			}
		}
	}
}

// Put stores item, a pointer to a struct of the schema, under all of its key
// paths: it replaces the item with the same primary path, if there is one, and then the paths that
// follow from changed fields move. The fields of metadata, and the one whose ID is made, are set.
//
// An item that breaks a rule is a *FieldError, a path that another item has a
// *PathTakenError; an item with a Meta of another primary path is ErrMoved. Nothing was changed then.
func (tx *Tx) Put(ctx context.Context, item any, opts *PutOptions) error {
	return tx.PutAll(ctx, []any{item}, opts)
}

// PutAll stores all of items as Put does, at once: a path that one of them gives up is
// free for another one. If two have the same primary path, the later one counts. When it returns an error
// nothing was changed.
func (tx *Tx) PutAll(ctx context.Context, items []any, opts *PutOptions) error {
	if err := tx.changes(); err != nil {
		return err
	}
	if opts == nil {
		opts = &PutOptions{}
	}
	return tx.p.putAll(ctx, items, opts)
}

// Delete deletes the items at the paths: each at all of its paths. A path without an item is fine.
func (tx *Tx) Delete(ctx context.Context, paths ...Path) error {
	if err := tx.changes(); err != nil {
		return err
	}
	for _, p := range paths {
		key, err := tx.p.types.shapes.item(p)
		if err == nil {
			err = tx.p.delete(ctx, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
