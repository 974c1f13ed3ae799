package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// An Actor is one actor as it was, read where it is. It must be closed.
type Actor struct {
	*actorstore.View
	store *actorstore.Store
	db    *pebblekv.DB
}

// Close lets go of what was read.
func (a *Actor) Close() error { return errors.Join(a.View.Close(), a.store.Close(), a.db.Close()) }

// Actor opens what a state has of the actor of a name, or, if that begins with "id:", of an id. Of the bucket it reads the lists, of each
// segment behind the base the index and the blocks that may have something of the actor, and of the tables the blocks that are asked
// for, in pieces of 128 KiB: how much that is depends on the actor and on the number of segments, not on what others have. ctx ends reading, also after Actor has returned.
// If the state is removed meanwhile, reads return ErrNoState.
//
// Errors: ErrNoState, ErrBookmark; kv.ErrNotFound, or actorstore.ErrUnknownActor, if there was no such actor; kv.ErrCorrupt with the name
// of the object; those of the bucket.
func (a *Archive) Actor(ctx context.Context, m Bookmark, name string) (_ *Actor, err error) {
	var id actorstore.ID
	if text, ok := strings.CutPrefix(name, "id:"); ok {
		id, err = actorstore.ParseID(text)
	} else {
		id, err = a.named(ctx, m, name)
	}
	if err != nil {
		return nil, err
	}
	groups := []group{wide, ofActor(id)}
	db, store, err := a.openStore(ctx, m, groups)
	if errors.Is(err, kv.ErrNotAStore) { // the base is older than the store of actors, whose row of the format is among the rest
		db, store, err = a.openStore(ctx, m, append(groups, rest))
	}
	if err != nil {
		return nil, err
	}
	v, err := store.View(ctx, id)
	if err != nil {
		return nil, errors.Join(err, store.Close(), db.Close())
	}
	return &Actor{v, store, db}, nil
}

// openStore opens the store of actors that a state has, with some groups.
func (a *Archive) openStore(ctx context.Context, m Bookmark, groups []group) (*pebblekv.DB, *actorstore.Store, error) {
	db, err := a.open(ctx, m, groups)
	if err != nil {
		return nil, nil, err
	}
	store, err := actorstore.Open(ctx, db, &actorstore.Options{ReadOnly: true})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, store, nil
}

// named returns the actor that had a name.
func (a *Archive) named(ctx context.Context, m Bookmark, name string) (id actorstore.ID, err error) {
	row, err := actorstore.NameRow(name)
	if err != nil {
		return id, err
	}
	db, err := a.open(ctx, m, []group{wide, ofName(name)})
	if err != nil {
		return id, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s, err := db.Snapshot(ctx)
	if err != nil {
		return id, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	value, err := s.Get(ctx, row, nil)
	if err != nil {
		return id, fmt.Errorf("the actor %q: %w", name, err)
	}
	return actorstore.ParseNameRow(name, value)
}

// open opens what a state has of some groups.
func (a *Archive) open(ctx context.Context, m Bookmark, groups []group) (db *pebblekv.DB, err error) {
	err = again(func() error {
		p, err := a.plan(ctx, m)
		if err != nil {
			return err
		}
		from := pebblekv.Archived{
			Small: map[string][]byte{}, Tables: map[string]*io.SectionReader{}, CacheBytes: viewCache,
			Records: p.records(ctx, a.bucket, groups),
		}
		c := newChunks(ctx, a.bucket, func(err error) error { return a.gone(ctx, m, err) })
		for i := range p.base.Files {
			f := &p.base.Files[i]
			if f.table() {
				from.Tables[f.Name] = io.NewSectionReader(&table{c, f.object(), f.Size}, 0, f.Size)
			} else {
				from.Small[f.Name] = f.Data
			}
		}
		db, err = pebblekv.OpenArchived(from)
		return err
	})
	return db, a.gone(ctx, m, err)
}

// viewCache is the size of the cache of a View, in bytes, besides what it remembers of the bucket.
const viewCache = 8 << 20

// Changes yields what was committed of an actor behind the state after, up to that of until, which is of the same lineage and not before: records
// with those operations alone that may be of the actor, in order. A record without any isn't yielded. What is yielded is valid until the next one.
//
// Errors: ErrBookmark; ErrNoState, if they are of two lineages, or not in this order, or not kept any more; kv.ErrCorrupt with the name of the object; those
// of the bucket. An error ends the sequence.
func (a *Archive) Changes(ctx context.Context, id actorstore.ID, after, until Bookmark) iter.Seq2[pebblekv.Record, error] {
	return func(yield func(pebblekv.Record, error) bool) {
		var p *plan
		err := again(func() (err error) {
			p, err = a.between(ctx, after, until)
			return err
		})
		if err != nil {
			yield(pebblekv.Record{}, a.gone(ctx, after, err))
			return
		}
		for r, err := range p.records(ctx, a.bucket, []group{wide, ofActor(id)}) {
			if err == nil && r.Number <= after.Number {
				continue
			}
			if !yield(r, a.gone(ctx, after, err)) {
				return
			}
		}
	}
}

// between returns how the records between two states are read.
func (a *Archive) between(ctx context.Context, after, until Bookmark) (*plan, error) {
	if after.Archive != until.Archive || after.Line != until.Line || after.Number > until.Number {
		return nil, fmt.Errorf("%w: %s does not lead to %s", ErrNoState, after, until)
	}
	p, err := a.plan(ctx, after) // with a base that isn't behind it
	if err != nil {
		return nil, err
	}
	return p, p.reach(ctx, a.bucket, until)
}
