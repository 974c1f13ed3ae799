package itemstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"reflect"
	"time"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/tuple"
)

// A Store is the items of one name on an engine. It is safe for concurrent use, needs no
// closing, and any number of Stores, of this process and others, may use one name.
type Store struct {
	*env
	db       *txn.DB
	versions *registry
}

// Open returns the store of a name. It publishes the version of the schema if it is the
// one after the newest that the store has: then programs of versions before go on, and read and
// write the same items, while new key paths are built by Build. A version that would break
// them is ErrIncompatible, and so is one that was published with other types.
//
// With a nil schema the store must exist, and goes by its newest version; items are structs that are
// made of it, see NewItem.
//
// The engine must offer transactions with versionstamps, as all engines of this module do, or the
// error is kv.ErrUnsupported. It stays the caller's.
func Open(ctx context.Context, e kv.Engine, name string, schema *Schema, opts *Options) (*Store, error) {
	if !utf8.ValidString(name) {
		return nil, fmt.Errorf("itemstore: the name %q is not UTF-8: %w", clip(name), kv.ErrInvalid)
	}
	env := &env{keys: newSpace(name)}
	if opts != nil {
		env.opts = *opts
	}
	if env.opts.Now == nil {
		env.opts.Now = time.Now
	}
	env.opts.TombstoneAge = cmp.Or(env.opts.TombstoneAge, defaultTombstoneAge)
	env.opts.Logger = cmp.Or(env.opts.Logger, slog.Default())
	if env.opts.Random == nil {
		env.opts.Random = rand.Reader
	}
	env.meter = metrics.Meter{To: env.opts.Metrics}
	if tr, ok := e.(txn.Transactor); !ok || !tr.TxCaps().Has(txn.Versionstamps) {
		return nil, fmt.Errorf("itemstore: an engine without versionstamps: %w", kv.ErrUnsupported)
	}
	db, err := txn.New(e, &env.opts.Transactions)
	if err != nil {
		return nil, fmt.Errorf("itemstore: %w", err)
	}
	env.maxPath = cmp.Or(env.opts.Transactions.Limits.Key, maxKey)
	if most := e.Limits().Key; most > 0 {
		env.maxPath = min(env.maxPath, most)
	}
	env.maxPath -= len(env.keys.dueLog(1<<40, pendingVersion, nil))
	s := &Store{env, db, &registry{env: env, given: schema}}
	run := db.Update
	if schema == nil { // the engine may be one that can only be read
		run = db.View
	}
	err = run(ctx, func(tx *txn.Tx) error { return s.versions.publish(ctx, tx) })
	if err != nil {
		return nil, fmt.Errorf("itemstore: open %s: %w", name, err)
	}
	return s, nil
}

// Names returns the names of the item stores on an engine, in their order.
func Names(ctx context.Context, e kv.Engine) (names []string, err error) {
	for name, err := range keys.Texts(ctx, e, tuple.NewSubspace(tuple.Tuple{rowsName, rowsVersion})) {
		if err != nil {
			return nil, fmt.Errorf("itemstore: %w", err)
		}
		names = append(names, name)
	}
	return names, nil
}

// NewItem returns a pointer to the zero value of an item type's struct, for what knows types by their
// names alone. In a store that was opened without Go types, the struct has the fields of the schema, and
// goes to JSON and back by encoding/json. A type that the schema lacks is ErrUnknownType.
func (s *Store) NewItem(name string) (any, error) {
	t := s.versions.own.byName(name)
	if t == nil || t.Codec && t.codec == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownType, clip(name))
	}
	return reflect.New(t.goType).Interface(), nil
}

// PathOf returns the primary path of an item, a pointer to a struct of the schema, as its fields are now.
// One that lacks a field of the path is a *FieldError.
func (s *Store) PathOf(item any) (Path, error) {
	c, err := s.versions.latest().content(item)
	if err != nil {
		return "", err
	}
	key, err := c.primary(len(c.newest.Paths[0].segs))
	if err != nil {
		return "", err
	}
	return unpackPath(key)
}

// Schema returns what the version of the schema declares that the store was opened with: of a store
// that was opened without Go types, the newest one.
func (s *Store) Schema() *SchemaInfo {
	info := &SchemaInfo{Version: s.versions.own.Version}
	for _, t := range s.versions.own.Types {
		if !t.Removed {
			info.Types = append(info.Types, t.info())
		}
	}
	return info
}

// Update runs fn in a transaction and commits it, whole or not at all: what it puts and
// deletes, at all paths. If another commit changed what fn has read, fn runs again
// with the newer state, so it must do nothing outside tx that can't be done twice. An item that
// fn puts is changed by Put: with IDs and times at once, with versions when Update returns nil.
// When it returns an error, IDs that were made are zero again, and metadata is what it was.
//
// If fn returns an error, nothing was changed, and Update returns that error. Others are
// those of txn.DB.Update. tx is for fn's goroutine, and of no use afterwards.
func (s *Store) Update(ctx context.Context, fn func(tx *Tx) error) error {
	var last *Tx
	err := s.db.Update(ctx, func(t *txn.Tx) error {
		last.Undo()
		last = nil
		tx, err := s.Begin(ctx, t)
		if err != nil {
			return err
		}
		last = tx
		if err := fn(tx); err != nil {
			return err
		}
		return tx.Flush(ctx)
	})
	if err != nil {
		last.Undo()
		return err
	}
	last.Landed()
	return nil
}

// View runs fn in a transaction that only reads: all of one state. It conflicts with
// nothing. Put and Delete are txn.ErrReadOnly. fn may run again as with Update.
func (s *Store) View(ctx context.Context, fn func(tx *Tx) error) error {
	return s.db.View(ctx, func(t *txn.Tx) error {
		tx, err := s.Begin(ctx, t)
		if err != nil {
			return err
		}
		tx.readOnly = true
		return fn(tx)
	})
}

// DB returns the transactions that the store runs on.
func (s *Store) DB() *txn.DB { return s.db }

// Begin returns a transaction of items within t, one of the store's engine, for a caller that commits more in t than items of one
// store: those of several stores, or rows of its own. The caller calls Flush before it commits t, and then
// Landed, or else Undo. Update does all of that.
func (s *Store) Begin(ctx context.Context, t *txn.Tx) (*Tx, error) {
	types, err := s.versions.current(ctx, t)
	if err != nil {
		return nil, err
	}
	v := view{env: s.env, tx: t, types: types, now: s.opts.Now()}
	return &Tx{p: &putter{stage: stage{view: v}}}, nil
}

// Put stores item in a transaction of its own; see Tx.Put.
func (s *Store) Put(ctx context.Context, item any, opts *PutOptions) error {
	return s.Update(ctx, func(tx *Tx) error { return tx.Put(ctx, item, opts) })
}

// PutAll stores all of items in a transaction of their own; see Tx.PutAll.
func (s *Store) PutAll(ctx context.Context, items []any, opts *PutOptions) error {
	return s.Update(ctx, func(tx *Tx) error { return tx.PutAll(ctx, items, opts) })
}

// Delete deletes the items at the paths in a transaction of its own; see Tx.Delete.
func (s *Store) Delete(ctx context.Context, paths ...Path) error {
	return s.Update(ctx, func(tx *Tx) error { return tx.Delete(ctx, paths...) })
}

// Items returns the items at the paths, of one state; see Tx.Items.
func (s *Store) Items(ctx context.Context, paths ...Path) (items []Item, err error) {
	if len(paths) == 1 {
		if items, ok, err := s.glance(ctx, paths[0]); ok {
			return items, err
		}
	}
	err = s.View(ctx, func(tx *Tx) (err error) {
		items, err = tx.Items(ctx, paths...)
		return err
	})
	return items, err
}

// glance returns the item at a path if that takes no transaction: of most paths one row of the engine has all. It reports
// whether it has found out what the path has.
//
// It goes by the newest version of the schema that the Store has seen. That knows what a row says which was written by
// that version or one before: types, key paths and stored names stay what they are.
func (s *Store) glance(ctx context.Context, path Path) (items []Item, ok bool, err error) {
	v := view{env: s.env, types: s.versions.latest(), now: s.opts.Now()}
	at, err := v.types.shapes.resolve(path, true)
	if err != nil || at.index || at.ref {
		return nil, false, nil
	}
	b, found, err := find(ctx, s.db.Engine(), s.keys.key(partItem, at.key))
	if err != nil || !found {
		return nil, err == nil, nil // a transaction finds out why it failed
	}
	r, err := parseRecord(b)
	if err != nil || r.chunked || r.kind == rowRef || r.schema == 0 || r.schema > uint64(v.types.head.version) {
		return nil, false, nil
	}
	items, err = v.appendItem(ctx, nil, r, at.key, path)
	return items, true, err
}
