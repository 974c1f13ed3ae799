// Package pgkv is the kv.Engine on PostgreSQL, version 14 or newer, for stores that
// outgrow one machine: many hosts use one store, and replication keeps it when a
// server dies.
//
// All entries lie in one table, kv(key, value), ordered by the bytes of the keys. A
// commit is one transaction at READ COMMITTED that first locks the rows it checks,
// in their order. Every commit that changes an actor checks the actor's head, so commits
// of one actor queue up there and see each other, and fail only by a check that doesn't
// hold. Only a commit that removes keys and checks none runs alone. Everything goes to
// the server in one go, with COMMIT at its end: a commit is one round trip, which small
// commits that wait share (share.go). If the
// connection breaks before the answer arrives, the commit is looked up by its id over
// another connection, see outcome.go.
//
// A DB never waits for a connection while it holds another one, so its pools can't
// deadlock: calls take a connection for one round trip; snapshots, scans of more
// than one page and transactions take one of another pool for as long as they last.
//
// pgkv is the only package that imports pgx, and its API shows no type of pgx. It
// isn't an object-relational layer, and other programs must not write into its tables.
package pgkv

// Files, from the top down:
//
//	txops.go tx.go commit.go share.go ranges.go read.go schema.go incarnation.go outcome.go snapshot.go
//	version.go plan.go retry.go scan.go url.go watch.go pgkv.go stage.go flow.go pool.go conn.go
//	encode.go statements.go cleared.go errors.go life.go surrogate.go

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/internal/groupcommit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/outcomes"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// Options say how to open a store. A nil *Options is the zero Options.
type Options struct {
	// MustExist makes Open fail with kv.ErrNoStore instead of creating a store.
	MustExist bool
	// ReadOnly opens an existing store without changing anything in it; a standby
	// will do for that. It implies MustExist; commits are refused, with an error of the kind greenroom.ErrReadOnly.
	ReadOnly bool
	// Calls is the largest number of connections for commits, and again for reads;
	// 0 means 16. A call waits for a free one as its context says. While a quarter of them
	// are used by small commits, further ones wait and share the next transaction.
	Calls int
	// Pins is the largest number of snapshots, long scans and transactions that can
	// be open at a time; 0 means 32. A caller that wants one more waits, and after PinWait
	// gets ErrBusy, because it may itself hold the others.
	Pins int
	// PinWait is how long to wait for one of Pins; 0 means 10 seconds.
	PinWait time.Duration
	// RetryFor is how long a call tries again when no server answers, or one that
	// takes no writes, as during a failover; 0 means 15 seconds, and less than 0 not
	// to try again. A call's context ends it sooner.
	RetryFor time.Duration
	// Timeout is how long one request may take before its connection is given up,
	// not counting a second for each MiB it sends; 0 means 30 seconds.
	Timeout time.Duration
	// IdleFor is how long an unused connection stays open; 0 means a minute.
	IdleFor time.Duration
	// Logger gets lost connections and retries, at level Debug. Nil means no logging.
	// Nothing logged holds a password or a key.
	Logger *slog.Logger
}

// orDefault returns o with every zero replaced by what it means.
func (o *Options) orDefault() Options {
	out := Options{}
	if o != nil {
		out = *o
	}
	if out.Calls <= 0 {
		out.Calls = 16
	}
	if out.Pins <= 0 {
		out.Pins = 32
	}
	if out.PinWait <= 0 {
		out.PinWait = 10 * time.Second
	}
	if out.RetryFor == 0 {
		out.RetryFor = 15 * time.Second
	}
	if out.Timeout <= 0 {
		out.Timeout = 30 * time.Second
	}
	if out.IdleFor <= 0 {
		out.IdleFor = time.Minute
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// A DB is one open store. It implements kv.Engine and txn.Transactor.
type DB struct {
	opts    Options
	target  *target
	sql     *statements
	writes  *pool
	reads   *pool
	pins    *pool
	host    [16]byte // this DB, in the table of outcomes
	commits outcomes.Memory
	slots   slots
	life    life
	shared  sharer
	watches watches

	incarnations incarnations
	unwatch      context.CancelFunc // ends the watch over the server; nil without one

	// broken is when a connection last had to be given up, in Unix nanoseconds.
	broken atomic.Int64

	// trips counts the waits for a server's answer.
	trips atomic.Int64

	message, stageAt, aloneAt int           // the constants, but in tests
	closeTimeout, grace       time.Duration // as well
}

var (
	_ kv.Engine      = (*DB)(nil)
	_ txn.Transactor = (*DB)(nil)
)

// Open opens the store that url names; if it doesn't exist, and opts allow it, Open
// creates it. A nil opts is the zero Options.
//
// The url is PostgreSQL's (https://www.postgresql.org/docs/15/libpq-connect.html), as
// pgx understands it: several hosts are tried in their order, for the one that takes
// writes; sslmode, sslrootcert and the like decide on TLS. Parameters of its own are
//
//	schema     the schema that holds the store, "greenroom" if not given: several
//	           stores in one database have several
//	calls      Options.Calls, where that is 0
//	pins       Options.Pins, where that is 0
//	retry      Options.RetryFor, where that is 0, as 5s or 1m; 0s is not to try again
//
// Connections have state: between a DB and its server there may be no pooler that
// gives each transaction another server connection.
//
// Errors: ErrURL, kv.ErrNoStore, kv.ErrNotAStore when the schema holds something
// else, kv.ErrNewerFormat (as *kv.FormatError), kv.ErrCorrupt, ErrUnavailable.
func Open(ctx context.Context, url string, opts *Options) (*DB, error) {
	t, o, err := parse(url, opts.orDefault(), opts)
	if err != nil {
		return nil, err
	}
	db := &DB{opts: o, target: t, sql: newStatements(t.schema), message: maxMessage, stageAt: stageAt, aloneAt: aloneAt,
		closeTimeout: closeTimeout, grace: grace}
	rand.Read(db.host[:]) // never fails
	db.life.init()
	// That many transactions keep a server busy that is near, and let enough commits come
	// together for one that is far.
	db.shared = sharer{db, groupcommit.New[member](o.Calls / 4)}
	db.writes = newPool(db, o.Calls)
	db.reads = newPool(db, o.Calls)
	db.pins = newPool(db, o.Pins)
	err = db.prepareSchema(ctx)
	if err == nil && !o.ReadOnly {
		err = db.meetServer(ctx)
	}
	if err != nil {
		db.closePools()
		return nil, wrap("open "+t.String(), err)
	}
	go db.sweep()
	return db, nil
}

// Limits of one commit. PostgreSQL holds fields of up to 1 GiB, but both sides keep a
// value in memory several times over.
const (
	maxKey   = 1 << 16
	maxValue = 64 << 20
	maxOps   = 1 << 20
	maxBytes = 1 << 30
)

// Limits returns keys of 64 KiB, values of 64 MiB, commits of 1,048,576 operations
// and 1 GiB, checks of as much again, and that reads cross a network.
func (db *DB) Limits() kv.Limits {
	return kv.Limits{Key: maxKey, Value: maxValue, Ops: maxOps, Bytes: maxBytes, Far: true}
}

// RoundTrips returns how often calls have waited for a server's answer since the DB was
// opened, without those that opened connections: what a store across a network costs.
func (db *DB) RoundTrips() int64 { return db.trips.Load() }

// Close releases the store's connections; calls that are running end first. Open
// snapshots end too. See kv.Engine.
func (db *DB) Close() error {
	if !db.life.close() {
		return nil
	}
	if db.unwatch != nil {
		db.unwatch()
	}
	db.watches.close()
	db.forget()
	db.closePools()
	return nil
}

func (db *DB) closePools() {
	for _, p := range []*pool{db.writes, db.reads, db.pins} {
		p.close()
	}
}

// begin starts a call: db.life.leave must follow when it returned nil.
func (db *DB) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return db.life.enter()
}
