package vfs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// A DB is a database/sql pool of connections to one actor's SQLite database.
type DB struct {
	*sql.DB
	vfs *VFS
	dsn string

	stuck atomic.Int64 // connections that database/sql will never get back
}

// mountName is the database's name in a VFS that holds nothing else.
const mountName = "main.db"

// pools numbers the VFS names that Open registers: SQLite's names are
// process-wide, so they need a process-wide counter.
var pools atomic.Uint64

// Open returns a pool for the database of a, which is created empty if a has
// none. It reads a little, and writes nothing unless a crash left something to finish
// (see VFS.Mount). The caller keeps a open until the pool is closed. An actor has one
// pool: a second one is ErrMounted.
//
// Transactions begin as writers (BEGIN IMMEDIATE), unless they are read-only, so
// that they queue up instead of failing half way. A statement that finds the
// database busy waits up to a minute. A pool that isn't used has no connection open (Options.MaxIdleTime).
func Open(ctx context.Context, a *actorstore.Actor, opts *Options) (*DB, error) {
	v := New(opts)
	return v.open(ctx, v.Mount(ctx, mountName, a))
}

// OpenView returns a pool that reads the database as view shows it. The caller
// keeps view open until the pool is closed.
func OpenView(ctx context.Context, view *actorstore.View, opts *Options) (*DB, error) {
	v := New(opts)
	return v.open(ctx, v.mountView(ctx, mountName, view))
}

// OpenReader returns a pool that reads the database as r shows it, which must not change until the pool is closed. For a View, OpenView
// reads ahead where the engine is far.
func OpenReader(ctx context.Context, r actorstore.Reader, opts *Options) (*DB, error) {
	v := New(opts)
	return v.open(ctx, v.mount(ctx, mountName, chunked.OfReader(r), nil))
}

// open registers v under a name of its own and opens the pool.
func (v *VFS) open(ctx context.Context, mounted error) (*DB, error) {
	if mounted != nil {
		return nil, mounted
	}
	name := fmt.Sprintf("greenroom-%d", pools.Add(1))
	if err := v.Register(name); err != nil {
		return nil, errors.Join(err, v.Unmount(mountName))
	}
	db := &DB{vfs: v, dsn: "file:/" + mountName + "?vfs=" + url.QueryEscape(name) + "&_txlock=immediate"}
	conns, err := v.connector(db.dsn)
	if err == nil {
		pool := sql.OpenDB(conns)
		pool.SetMaxOpenConns(v.opts.MaxConns)
		pool.SetMaxIdleConns(v.opts.MaxConns)
		if err = pool.PingContext(ctx); err == nil {
			db.DB = pool
			return db, nil
		}
		err = errors.Join(err, pool.Close())
	}
	return nil, errors.Join(err, v.Unregister(), v.Unmount(mountName))
}

// connector returns what makes the connections of the pool for dsn.
func (v *VFS) connector(dsn string) (*connector, error) {
	d, err := v.find(mountName)
	if err != nil {
		return nil, err
	}
	return newConnector(dsn, d, v)
}

// DSN is the data source name of this pool's connections, for the go-sqlite3 API
// and for ATTACH. It is valid until Close.
func (db *DB) DSN() string { return db.dsn }

// Stats returns the counts of this database.
func (db *DB) Stats() Stats {
	s, err := db.vfs.Stats(mountName)
	if err != nil {
		return Stats{} // closed
	}
	return s
}

// Cause returns the last error of Greenroom's own that SQLite was told for this
// database, nil if there was none: the reason behind a code such as SQLITE_FULL
// or SQLITE_IOERR, for errors.Is.
func (db *DB) Cause() error {
	d, err := db.vfs.find(mountName)
	if err != nil {
		return nil
	}
	return d.lastCause()
}

// Durable returns when every transaction that was committed before the call is on
// stable storage. Below synchronous=FULL a COMMIT doesn't wait for that, so that many
// transactions, of many connections, can share one wait. A failure other than the
// context's leaves the database refusing everything: what is not durable may be lost.
func (db *DB) Durable(ctx context.Context) error {
	d, err := db.vfs.find(mountName)
	if err != nil || d.actor == nil {
		return err
	}
	return d.actor.Sync(ctx)
}

// Close closes the pool, which rolls back what is not committed, and forgets the
// database. While a connection or a transaction is in use it returns ErrBusy and
// lets that one go on; close again when it was given back. The actor stays open.
func (db *DB) Close() error {
	if err := db.DB.Close(); err != nil {
		return err
	}
	if err := db.vfs.Unregister(); err != nil {
		return err
	}
	if err := db.vfs.Unmount(mountName); !errors.Is(err, ErrNotMounted) {
		return err
	}
	return nil // closed before
}
