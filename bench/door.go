package main

import (
	"context"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/vfs"
)

// belowDoor is the peer of door/update: package vfs alone.
const belowDoor = "vfs"

// An executor runs a statement in a transaction of its own.
type executor func(ctx context.Context, query string, args ...any) error

// updates opens door/update: an actor whose database gets one row after the other, each in a
// transaction that is durable before the next one begins. Rows are as wide as those of
// sqlite/insert-1, beside which the line stands, so that the two can be compared. Both sides
// go through database/sql, on the same kind of store and with the same options, so that what
// differs is the way into the actor.
func updates(way func(*stand, *greenroom.Store) executor) func(*stand) {
	return func(s *stand) {
		store := must(greenroom.New(s.ctx, s.openEngine(), &greenroom.Options{Limits: limits()}))
		exec := way(s, owned(s, store))
		check(exec(s.ctx, createTable))
		rows := newRows(blobSize)
		s.workers = []worker{repeat(func() error {
			rows.next()
			return exec(s.ctx, insertRow, rows.a, rows.b)
		})}
	}
}

// throughDoor runs statements through the root package, which opens the database with the
// first.
func throughDoor(s *stand, store *greenroom.Store) executor {
	a := owned(s, must(store.Actor(s.ctx, "bench", nil)))
	return func(ctx context.Context, query string, args ...any) error {
		return a.Update(ctx, func(tx *greenroom.Tx) error {
			_, err := tx.Exec(query, args...)
			return err
		})
	}
}

// throughVFS runs statements through package vfs.
func throughVFS(s *stand, store *greenroom.Store) executor {
	a := owned(s, must(store.Lower().Named(s.ctx, "bench", nil)))
	db := owned(s, must(vfs.Open(s.ctx, a, nil)))
	return func(ctx context.Context, query string, args ...any) error {
		return db.Update(ctx, func(tx *vfs.Tx) error {
			_, err := tx.ExecContext(ctx, query, args...)
			return err
		})
	}
}
