package main

import (
	"context"
	"errors"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// belowDoor is the peer of door/update: package vfs alone.
const belowDoor = "vfs"

// doorLines is door/update: a durable transaction of one row by greenroom.Actor.Update, and
// by vfs.DB.Update, which is below it. Both go through database/sql.
func doorLines(engine string) []line {
	return []line{{
		"door/update", "txn/s",
		side{"greenroom-" + engine, func(ctx context.Context, at site) (runner, error) { return openUpdates(ctx, at, throughDoor) }},
		side{belowDoor, func(ctx context.Context, at site) (runner, error) { return openUpdates(ctx, at, throughVFS) }},
	}}
}

// An updates is an actor whose database gets one row after the other: as wide as those of
// sqlite/insert-1, beside which the line stands, so that the two can be compared.
type updates struct {
	engine *faultkv.Engine // counts
	store  *greenroom.Store
	rows   *rows // what is inserted
	// exec runs a statement in a transaction of its own.
	exec func(ctx context.Context, query string, args ...any) error
	// end closes the actor; nil if there is none.
	end func() error
}

var _ runner = (*updates)(nil)

// openUpdates has a way into the actor of a new store make its table.
func openUpdates(ctx context.Context, at site, way func(context.Context, *updates) error) (_ runner, err error) {
	engine, err := openEngine(ctx, at)
	if err != nil {
		return nil, err
	}
	u := &updates{engine: faultkv.New(engine), rows: newRows(blobSize)}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.close())
		}
	}()
	limits := batch.DefaultLimits()
	limits.Storage = maxStorage
	if u.store, err = greenroom.New(ctx, u.engine, &greenroom.Options{Limits: limits}); err != nil {
		return nil, err
	}
	if err = way(ctx, u); err == nil {
		err = u.exec(ctx, createTable)
	}
	return u, err
}

// throughDoor has statements run by the root package, which opens the database with the first.
func throughDoor(ctx context.Context, u *updates) error {
	a, err := u.store.Actor(ctx, "bench", nil)
	if err != nil {
		return err
	}
	u.end = a.Close
	u.exec = func(ctx context.Context, query string, args ...any) error {
		return a.Update(ctx, func(tx *greenroom.Tx) error {
			_, err := tx.Exec(query, args...)
			return err
		})
	}
	return nil
}

// throughVFS has statements run by package vfs, on the same kind of store and with the same
// options, so that what differs is the door.
func throughVFS(ctx context.Context, u *updates) error {
	a, err := u.store.Lower().Named(ctx, "bench", nil)
	if err != nil {
		return err
	}
	u.end = a.Close
	db, err := vfs.Open(ctx, a, nil)
	if err != nil {
		return err
	}
	u.end = func() error { return errors.Join(db.Close(), a.Close()) }
	u.exec = func(ctx context.Context, query string, args ...any) error {
		return db.Update(ctx, func(tx *vfs.Tx) error {
			_, err := tx.ExecContext(ctx, query, args...)
			return err
		})
	}
	return nil
}

// run inserts n rows, each in a transaction that is durable before the next one begins.
func (u *updates) run(ctx context.Context, n int) error {
	for range n {
		u.rows.next()
		if err := u.exec(ctx, insertRow, u.rows.a, u.rows.b); err != nil {
			return err
		}
	}
	return nil
}

// counts are the engine's, by which a test holds that both sides cost the same.
func (u *updates) counts() faultkv.Counts { return u.engine.Counts() }

// close ends what is open, in reverse order, also after a start that failed half way.
func (u *updates) close() error {
	var errs []error
	if u.end != nil {
		errs = append(errs, u.end())
	}
	if u.store != nil {
		errs = append(errs, u.store.Close())
	}
	return errors.Join(append(errs, u.engine.Close())...)
}
