// Package txn runs serializable transactions over an engine of package kv: the part of FoundationDB's API that is about
// transactions, with its behaviour. It is the ground of data models that share one store and no owner; an actor's own data
// has one writer, and package actorstore commits it with the engine alone.
//
// A DB is FoundationDB's Database, and a Tx its Transaction:
//
//	db, err := txn.New(engine, nil)
//	err = db.Update(ctx, func(tx *txn.Tx) error {
//		n, err := tx.Get(ctx, []byte("stock/4711"), nil)
//		if err != nil {
//			return err
//		}
//		return tx.Set([]byte("stock/4711"), less(n))
//	})
//
// There are snapshot reads, key selectors, atomic operations, versionstamps, watches, declared conflict ranges and
// the limits of FoundationDB (10,000 bytes for a key, 100,000 for a value, 10 MB and five seconds for a transaction). The
// differences: an iterator takes the place of a future, since a near engine answers in microseconds; MutationAppendIfFits measures
// against the limit of the DB; and which of several unread conflicts is reported is up to the engine. Package tuple has the
// tuple layer, with subspaces, and package keys types over it.
//
// An engine takes part by implementing Transactor. Package kv/txn/txntest has the tests that it must pass.
package txn

// Files, from the top down:
//
//	watch.go read.go selector.go scan.go run.go write.go tx.go metrics.go db.go spans.go transactor.go
//	errors.go mutation.go

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/metrics"
)

// A DB runs transactions on an engine. It is safe for concurrent use, needs no
// closing, and any number of them may use one engine, beside its own commits.
//
// Transactions are serializable: what the committed ones read and wrote is as if they
// had run one after the other, in an order in which a transaction that began after
// another had committed comes later. docs/transactions.md says how.
type DB struct {
	eng  kv.Engine
	tr   Transactor
	opts Options
	name *metricSet

	meter metrics.Meter
}

// Options are the options of New. The zero value is what a nil *Options means.
type Options struct {
	// MaxAttempts bounds how often Update and View run a closure; 0 means 100, and
	// below 0 it isn't bounded but the context.
	MaxAttempts int
	// Backoff and MaxBackoff bound the wait before a further attempt: it is random,
	// shorter than Backoff the first time, twice that the second, and so on up to
	// MaxBackoff. 0 means 100 µs and 100 ms, on a far engine 2 ms and 1 s.
	Backoff, MaxBackoff time.Duration
	// MaxAge is how long after its first read a transaction may still read and
	// commit; 0 means 5 s, below 0 it isn't bounded. The engine keeps for that long
	// what open transactions may need.
	MaxAge time.Duration
	// Limits bound what one transaction writes.
	Limits Limits
	// Now is the clock for MaxAge and for the metrics; nil means time.Now.
	Now func() time.Time
	// Metrics receives what is counted; nil means nothing is.
	Metrics metrics.Sink
	// Names are the names of transactions that Metrics tells apart; see Named.
	Names *Names
}

// Limits bound one transaction, in bytes. They are at most those of the engine.
type Limits struct {
	// Key bounds a key; 0 means 10,000.
	Key int
	// Value bounds a value; 0 means 100,000.
	Value int
	// Bytes bounds the sum of all keys and values in the writes, overwritten ones
	// included, and of the bounds of all conflict ranges; 0 means 10,000,000.
	Bytes int
}

// The defaults of Options.
const (
	defaultAttempts = 100
	defaultMaxAge   = 5 * time.Second
	defaultTxKey    = 10_000
	defaultTxValue  = 100_000
	defaultTxBytes  = 10_000_000
)

// New returns a DB on e; a nil opts is the zero Options. An engine that isn't a
// Transactor is kv.ErrUnsupported. The engine stays the caller's, to close as well.
func New(e kv.Engine, opts *Options) (*DB, error) {
	tr := TransactorOf(e)
	if tr == nil {
		return nil, fmt.Errorf("txn: transactions: %w", kv.ErrUnsupported)
	}
	db := &DB{eng: e, tr: tr}
	if opts != nil {
		db.opts = *opts
	}
	db.opts.setDefaults(e.Limits())
	db.name, db.meter.To = db.opts.Names.find(""), db.opts.Metrics
	return db, nil
}

func (o *Options) setDefaults(lim kv.Limits) {
	first, longest := 100*time.Microsecond, 100*time.Millisecond
	if lim.Far {
		first, longest = 2*time.Millisecond, time.Second
	}
	o.MaxAttempts = cmp.Or(o.MaxAttempts, defaultAttempts)
	o.Backoff, o.MaxBackoff = cmp.Or(o.Backoff, first), cmp.Or(o.MaxBackoff, longest)
	o.MaxAge = max(0, cmp.Or(o.MaxAge, defaultMaxAge))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Names == nil {
		o.Names = NewNames()
	}
	bound := func(n *int, most, engine int) {
		if *n = cmp.Or(*n, most); engine > 0 {
			*n = min(*n, engine)
		}
	}
	bound(&o.Limits.Key, defaultTxKey, lim.Key)
	bound(&o.Limits.Value, defaultTxValue, lim.Value)
	bound(&o.Limits.Bytes, defaultTxBytes, lim.Bytes)
}

// Engine returns the engine below.
func (db *DB) Engine() kv.Engine { return db.eng }

// Named returns the same DB under another name: its transactions are counted under
// that, if it is one of Options.Names. It costs an allocation, no more.
func (db *DB) Named(name string) *DB {
	named := *db
	named.name = db.opts.Names.find(name)
	return &named
}

// Update runs fn in a transaction and commits it. When another commit got between, or
// fn returns an error that is Retryable, it runs fn again, in a new transaction, after
// a pause, until it succeeds, ctx ends or Options.MaxAttempts is reached. So fn may
// run several times, and must do nothing outside tx that can't be done twice.
//
// If fn returns any other error or panics, the transaction is rolled back; Update returns
// that error, or panics with the same value. When it gives up, the error wraps the cause
// of the last attempt, and that of ctx. When it can't be known whether the transaction
// was applied, and the engine can't find out, the error is kv.ErrUnknownOutcome, and fn isn't
// run again. tx is of no use afterwards, but for Versionstamp and Size.
//
// When Update returns nil, what fn wrote is on stable storage.
func (db *DB) Update(ctx context.Context, fn func(tx *Tx) error) error {
	return db.run(ctx, false, fn)
}

// View runs fn in a transaction that only reads: all of one committed state. It
// conflicts with nothing, and nothing waits for it. Writes are ErrReadOnly. An error of
// fn that is Retryable, as ErrTooOld is, lets it run again, as with Update.
func (db *DB) View(ctx context.Context, fn func(tx *Tx) error) error {
	return db.run(ctx, true, fn)
}

// Begin returns a transaction that the caller ends, by Commit or by Cancel, which also
// releases what it holds: a deferred Cancel does nothing after a Commit. It isn't run again; Retryable says when that would make sense. The context is not kept.
func (db *DB) Begin(ctx context.Context) (*Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	tx := newTx(db, false)
	tx.metered, tx.begun = true, db.begin()
	db.meter.Count(db.name.attempts, 1)
	return tx, nil
}

// Checkpoint writes a copy of the newest state into the directory dir, which must not
// exist yet: a store that can be opened on its own. An engine that can't returns
// kv.ErrUnsupported.
func (db *DB) Checkpoint(ctx context.Context, dir string) error {
	return db.tr.Checkpoint(ctx, dir)
}
