// Package pebblekv is the kv.Engine on a local directory, on Pebble, CockroachDB's log-structured
// store (https://github.com/cockroachdb/pebble).
//
// It adds what package kv promises and Pebble doesn't: checks that are atomic with the commit,
// outcomes, a failing disk that poisons the store instead of ending the process, closing beside
// running calls, and refusing to write into a directory that isn't a store. It also writes less:
// the differences of values, to a log of its own (package wal below it) in place of Pebble's. No
// other package imports Pebble, and no type of Pebble appears in the API. The package is not a way
// to tune Pebble: it chooses the options, and says why, for entries of about 4 KiB.
package pebblekv

// Files, from the top down:
//
//	stats.go archived.go base.go erase.go salvage.go rebuild.go crashdisk.go open.go recover.go tx.go version.go pebblekv.go commit.go
//	reclaim.go snapshot.go exposed.go read.go encode.go pebble.go logrest.go memory.go inspect.go options.go records.go
//	log.go held.go metrics.go cleared.go record.go store.go room.go errors.go format.go own.go

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A DB is one open store, the front door to what reads it, and to what commits. It implements kv.Engine, txn.Transactor, kv.Sharer, kv.Failer, kv.Spacer and kv.Roomer.
type DB struct {
	store   *store
	reads   *reader
	commits *committer
	shared  sync.Map
	rest    *logRest // what of the log is left out, nil for nothing
}

var (
	_ kv.Engine      = (*DB)(nil)
	_ kv.Sharer      = (*DB)(nil)
	_ kv.Failer      = (*DB)(nil)
	_ kv.Spacer      = (*DB)(nil)
	_ kv.Roomer      = (*DB)(nil)
	_ txn.Transactor = (*DB)(nil)
)

// Limits returns what Pebble's formats bound: keys of 1 MiB, values of 1 GiB,
// commits of 16,777,216 operations and 3.8 GiB.
func (d *DB) Limits() kv.Limits {
	return kv.Limits{Key: maxKey, Value: maxValue, Ops: maxOps, Bytes: maxBytes}
}

// Outcome tells what became of a recent commit of this DB. See kv.Engine.
func (d *DB) Outcome(ctx context.Context, id kv.CommitID) (kv.Outcome, error) {
	if err := d.store.begin(ctx); err != nil {
		return kv.OutcomeUnknown, err
	}
	defer d.store.life.Leave()
	return d.commits.outcomes.Outcome(id), nil
}

// Shared returns what the users of this DB share: the store's lock keeps every
// other process out. See kv.Sharer.
func (d *DB) Shared() *sync.Map { return &d.shared }

// Records returns the log of d, nil if d is open for reading alone.
func (d *DB) Records() *Records {
	if d.store.log == nil {
		return nil
	}
	return &Records{d.commits.journal}
}

// Failed is closed when the disk has failed the store for good. See kv.Failer.
func (d *DB) Failed() <-chan struct{} { return d.store.fault.Done() }

// FreeSpace returns how many bytes the disk of the store has free for the process. See kv.Spacer.
func (d *DB) FreeSpace() (free int64, known bool, err error) {
	return d.store.free()
}

// HasRoom returns nil unless the disk has less free than Options.MinFree. See kv.Roomer.
func (d *DB) HasRoom() error { return d.store.room.check() }

// Sync returns when everything applied before it is on the disk. See kv.Engine.
func (d *DB) Sync(ctx context.Context, _ kv.Incarnation) error {
	if err := d.store.begin(ctx); err != nil {
		return err
	}
	defer d.store.life.Leave()
	if d.store.readOnly {
		return nil
	}
	return d.store.verdict(d.store.log.Sync(d.store.log.Last()))
}

// Incarnation returns 0: a store that lost something is poisoned. See kv.Engine.
func (d *DB) Incarnation() kv.Incarnation { return 0 }

// Close releases the store; calls that are running end first. With open scans
// or snapshots it returns an error, and the store is released when they end. On
// a poisoned store it releases what can be released and returns kv.ErrPoisoned.
func (d *DB) Close() error {
	if !d.store.life.Close() {
		return nil
	}
	d.commits.order.Lock()
	d.commits.txs.Wake()
	d.commits.order.Unlock()
	if n := d.store.life.Pins() - 1; !d.store.life.Unpin() {
		return fmt.Errorf("pebblekv: closed with %d open scans or snapshots, which keep %s locked", n, d.store.dir)
	}
	return d.store.teardown()
}

// Commit applies c. See kv.Engine. The context is looked at before the commit is
// applied; once it is, Commit waits for its durability whatever happens to ctx.
// OnApply must not close the DB.
func (d *DB) Commit(ctx context.Context, c *kv.Commit) error {
	if err := d.store.begin(ctx); err != nil {
		return kv.NotApplied(err)
	}
	defer d.store.life.Leave()
	if d.store.readOnly {
		return kv.NotApplied(errReadOnly)
	}
	return d.commits.commit(ctx, c)
}

// Get appends the newest value of key to dst. See kv.Reader.
func (d *DB) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if err := d.store.begin(ctx); err != nil {
		return dst, err
	}
	defer d.store.life.Leave()
	if out, ok := d.reads.memory.get(key, dst); ok {
		return out, nil
	}
	return d.reads.get(d.store.newest, key, dst)
}

// Scan yields the entries of r in the state at the start of the iteration. See
// kv.Reader.
func (d *DB) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) { d.reads.scan(ctx, d.store.newest, r, yield) }
}

// Snapshot pins the newest state. See kv.Engine. It stays readable until it is
// closed or the DB is.
func (d *DB) Snapshot(ctx context.Context) (kv.Snapshot, error) { return d.reads.snapshot(ctx) }
