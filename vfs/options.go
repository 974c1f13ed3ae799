package vfs

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/part"
)

// Options are settings of a VFS and of the pools that Open makes; nil means the
// defaults.
type Options struct {
	// TempMemory is how many bytes of one temporary file of SQLite are kept in
	// memory; a larger one moves to the operating system's TempDir. 0 means
	// 4 MiB, a negative number that nothing is kept in memory.
	TempMemory int64
	// TempBytes bounds what all temporary files of SQLite take together, in memory and in
	// TempDir: TEMP tables, sorters, statement journals and the copies that VACUUM makes, of
	// all connections of a pool or VFS. A statement that needs more fails with SQLITE_FULL
	// (ErrTempFull). With PRAGMA temp_store=MEMORY they are in the memory of their
	// connection, which has at most 256 MiB, and don't count. 0 means 1 GiB, a negative
	// number no bound.
	TempBytes int64
	// TempDir is where large temporary files go, and in WAL mode SQLite's index of the
	// log; "" means os.TempDir.
	TempDir string
	// TxMemory is how many bytes of a transaction are kept in memory beyond SQLite's
	// cache, with the journal that can undo them, until it commits: up to there a
	// transaction is one engine commit (where one commit may be so large), and its
	// journal is never stored. A database has one writer, so it takes this memory
	// once, and gives it back when the transaction is over. 0 means 32 MiB, less
	// than 1 MiB means 1 MiB.
	TxMemory int64
	// MaxSnapshotAge and MaxSnapshots bound the engine snapshots that transactions of
	// this database keep open: each one keeps old versions of everything in the store
	// alive. A transaction may read for MaxSnapshotAge after the state that it reads
	// was replaced by a newer one, and at most MaxSnapshots states are kept, the
	// newest ones. Beyond either bound, the next read of a page that isn't in SQLite's
	// cache fails with ErrSnapshotTooOld (see Cause), and the transaction must be
	// rolled back. A transaction that reads the newest state is not bounded, nor is
	// the writer. In WAL mode they mean nothing: there a reader keeps the log alive.
	// 0 means 5 minutes and 64, a negative number no bound.
	MaxSnapshotAge time.Duration
	MaxSnapshots   int
	// MaxConns bounds the connections of a pool. Each one that is open takes a third of a megabyte, and
	// what SQLite's cache_size allows, 2 MB by default. 0 means 8.
	MaxConns int
	// MaxIdleTime is how long a connection of a pool keeps SQLite's memory when it isn't in use: neither in a transaction nor held
	// by an sql.Conn or sql.Rows. Then that is given back, and the next use opens it again, which takes less than a
	// millisecond. What Pragmas and Extensions say is set up again, and statements of the pool (sql.Stmt) are
	// compiled again. A connection stays open, though, on which anything else was set: by a PRAGMA outside of Pragmas that leaves something on
	// it, by a temporary table, an attached database, or through sql.Conn.Raw; and one in WAL mode or with
	// locking_mode=EXCLUSIVE. What isn't kept is SQLite's cache of pages, and what a pool doesn't promise
	// from one use to the next: last_insert_rowid(), changes(), total_changes() and PRAGMA data_version. 0 means a second, a negative number for ever.
	MaxIdleTime time.Duration
	// MayWrite, unless it is nil, is called when a connection is about to become the
	// writer, or to wait for that, but for BeginUpdate and for rolling back what a crash
	// left; an error of it makes that fail. It is called by the goroutine that executes
	// the statement, with the statement's context. In WAL mode SQLite takes its lock
	// unseen, so there it is called when a pool begins a transaction that isn't
	// read-only, and when a transaction comes to write to the log.
	MayWrite func(ctx context.Context) error
	// Pragmas are run on every new connection of a pool, as "foreign_keys=ON".
	Pragmas []string
	// Extensions are called with every new connection of a pool, before Pragmas are
	// run: the Register functions of go-sqlite3's ext packages (vec1, regexp, …), or
	// functions that create functions and collations. Full-text search (FTS5) and
	// R-Trees are there before them.
	Extensions []Extension
	// Plain leaves out FTS5 and R-Trees: a database that has such tables can't read them.
	Plain bool
	// Wrap puts another VFS on top of this one when it is registered, as
	// func(v sqlitevfs.VFS) sqlitevfs.VFS { return adiantum.Wrap(v, nil) }. Its files
	// must let this package's be unwrapped (sqlitevfs.FileUnwrap). A key that it asks
	// for comes first in Pragmas. nil puts none there.
	Wrap Wrapper
	// Env is what the parts of an actor share.
	part.Env
}

// An Extension adds to a new connection, as the Register functions of go-sqlite3's ext
// packages do. See Options.Extensions.
type Extension = func(*sqlite3.Conn) error

// A Wrapper puts another VFS on top of one. See Options.Wrap.
type Wrapper = func(v sqlitevfs.VFS) sqlitevfs.VFS

const (
	defaultTempMemory = 4 << 20
	defaultTempBytes  = 1 << 30
	defaultTxMemory   = 32 << 20
	leastTxMemory     = 1 << 20
	defaultMaxAge     = 5 * time.Minute
	defaultMaxSnaps   = 64
	defaultMaxConns   = 8
	defaultIdleTime   = time.Second
)

// withDefaults returns a copy of o with every field set.
func (o *Options) withDefaults() Options {
	var r Options
	if o != nil {
		r = *o
	}
	r.TempMemory = cmp.Or(r.TempMemory, defaultTempMemory)
	r.TempBytes = cmp.Or(r.TempBytes, defaultTempBytes)
	r.TxMemory = max(cmp.Or(r.TxMemory, defaultTxMemory), leastTxMemory)
	r.MaxSnapshotAge = cmp.Or(r.MaxSnapshotAge, defaultMaxAge)
	r.MaxSnapshots = cmp.Or(r.MaxSnapshots, defaultMaxSnaps)
	r.MaxConns = cmp.Or(max(r.MaxConns, 0), defaultMaxConns)
	r.MaxIdleTime = cmp.Or(r.MaxIdleTime, defaultIdleTime)
	r.Logger = cmp.Or(r.Logger, slog.Default())
	return r
}
