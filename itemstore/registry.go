package itemstore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"reflect"
	"sync"

	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// types is the schema as it stands in the store at one time.
type types struct {
	head     head
	row      []byte // head as it is stored
	byNumber map[uint64]*bound
	byGo     map[reflect.Type]*bound
	shapes   *shapes
}

// bound returns the type of a number.
func (t *types) bound(number uint64) (*bound, error) {
	if b := t.byNumber[number]; b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("itemstore: item type %d: %w", number, ErrCorrupt)
}

// byName returns the type of a name in the program's version, or nil.
func (t *types) byName(name string) *bound {
	for _, b := range t.byGo {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// content returns the fields of an item that is put.
func (t *types) content(item any) (*content, error) {
	v := reflect.ValueOf(item)
	if v.Kind() != reflect.Pointer || v.IsNil() || t.byGo[v.Type().Elem()] == nil {
		return nil, fmt.Errorf("%w: a %T; items are pointers to structs of the schema", ErrUnknownType, item)
	}
	return &content{bound: t.byGo[v.Type().Elem()], v: v.Elem()}, nil
}

// A registry is the versions of a store's schema.
type registry struct {
	*env
	given *Schema  // nil for the newest one
	own   *catalog // of the program's version, as it was published

	mu    sync.Mutex
	types *types // of the newest version that was seen; +checklocks:mu
}

// publish finds the version of the schema in the store, or puts it there.
func (r *registry) publish(ctx context.Context, tx *txn.Tx) error {
	given := r.given
	h, newest, err := r.newest(ctx, tx)
	switch {
	case err != nil:
		return err
	case given == nil && h.version == 0:
		return fmt.Errorf("%w: the store doesn't exist", ErrNotFound)
	case given == nil:
		r.own = newest
		if err := r.own.untyped(); err != nil {
			return err
		}
		r.schema = r.own.Version
		_, err := r.bindTo(h, newest)
		return err
	case given.Version > h.version+1 && h.version > 0:
		return fmt.Errorf("%w: version %d follows %d, which is the newest", ErrIncompatible, given.Version, h.version)
	}
	before := newest
	r.schema = given.Version
	if given.Version < h.version {
		if before, err = r.catalog(ctx, tx, given.Version); err != nil {
			return err
		}
	}
	if r.own, err = before.next(&given.catalog); err != nil {
		return err
	}
	if given.Version > h.version {
		newest = r.own
		err = r.putVersion(tx, h, before)
		h.version = given.Version
	} else if !r.own.equal(before) {
		err = fmt.Errorf("%w: version %d is published with other types: raise the version", ErrIncompatible, given.Version)
	}
	if err == nil {
		_, err = r.bindTo(h, newest)
	}
	return err
}

// putVersion stores the catalog of a version that follows before.
func (r *registry) putVersion(tx *txn.Tx, h head, before *catalog) error {
	h.version = r.own.Version
	if err := keys.Put(r.keys.in(tx), catalogKey{h.version}, r.own); err != nil {
		return err
	}
	for _, t := range r.own.Types {
		for _, o := range before.Types {
			for _, p := range t.Paths {
				if o.Number != t.Number || o.path(p.Number) != nil {
					continue
				}
				if err := keys.Put(r.keys.in(tx), buildKey{t.Number, p.Number}, Building{Type: t.Name, Template: p.Template}); err != nil {
					return err
				}
			}
		}
	}
	return tx.Set(r.keys.key(partSchema), h.append(nil))
}

// newest returns the row of the store and its newest catalog; of a store that isn't there a new row, and an empty catalog.
func (r *registry) newest(ctx context.Context, tx *txn.Tx) (h head, c *catalog, err error) {
	b, ok, err := find(ctx, tx, r.keys.key(partSchema))
	if err == nil && !ok {
		_, err = io.ReadFull(r.opts.Random, h.nonce[:])
		return h, &catalog{}, err
	}
	if err == nil {
		h, err = parseHead(b)
	}
	if err == nil {
		c, err = r.catalog(ctx, tx, h.version)
	}
	return h, c, err
}

// catalog reads the catalog of a version.
func (r *registry) catalog(ctx context.Context, tx *txn.Tx, version int) (*catalog, error) {
	c, err := keys.Get(ctx, r.keys.in(tx), catalogKey{version})
	if err == nil {
		err = c.load()
	}
	return c, err
}

// bindTo makes newest the catalog that the store goes by.
func (r *registry) bindTo(h head, newest *catalog) (*types, error) {
	t := &types{head: h, row: h.append(nil), byNumber: map[uint64]*bound{}, byGo: map[reflect.Type]*bound{}}
	for _, n := range newest.Types {
		own := first(r.own.Types, func(o *itemType) bool {
			return o.Number == n.Number && !o.Removed && (!o.Codec || o.codec != nil)
		})
		b, err := bind(own, n)
		if err != nil {
			return nil, err
		}
		if t.byNumber[n.Number] = b; own != nil {
			t.byGo[own.goType] = b
		}
	}
	var err error
	if t.shapes, err = newest.shapes(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.types = t
	return t, nil
}

// latest returns the types of the newest version that was seen.
func (r *registry) latest() *types {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.types
}

// current returns the types as the transaction sees them.
func (r *registry) current(ctx context.Context, tx *txn.Tx) (*types, error) {
	t := r.latest()
	b, _, err := find(ctx, tx, r.keys.key(partSchema))
	if err != nil || bytes.Equal(b, t.row) {
		return t, err
	}
	h, newest, err := r.newest(ctx, tx)
	if err != nil {
		return nil, err
	}
	if h.nonce != t.head.nonce {
		return nil, fmt.Errorf("%w: the store is another one than was opened", ErrNotFound)
	}
	return r.bindTo(h, newest)
}
