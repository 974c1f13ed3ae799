// Package pebblekv is the kv.Engine on a local directory, on Pebble, CockroachDB's
// log-structured store (https://github.com/cockroachdb/pebble).
//
// It adds to Pebble what package kv promises and Pebble doesn't: checks that
// are atomic with the commit, outcomes, a failing disk that poisons the store
// instead of ending the process, closing beside running calls, and refusing to
// write into a directory that is no store. It also writes less: the differences of
// values, to a log of its own (package wal below it) in place of Pebble's. No other
// package imports Pebble, and no type of Pebble shows in the API. It is not a way to tune Pebble:
// the options are chosen here, with their reasons, for entries of about 4 KiB.
package pebblekv

// Files, from the top down:
//
//	crashdisk.go salvage.go archived.go base.go erase.go exposed.go records.go open.go tx.go commit.go snapshot.go log.go logrest.go read.go
//	options.go version.go pebblekv.go record.go checked.go encode.go metrics.go recent.go cleared.go errors.go format.go

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/optimistic"
	"github.com/greenroomdb/greenroom/kv/internal/outcomes"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/wal"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/metrics"
)

// Options say how to open a store. A nil *Options is the zero Options.
type Options struct {
	// CacheBytes is the size of the cache of uncompressed blocks; 0 means 256 MiB.
	CacheBytes int64
	// MemtableBytes is how much is written before it goes from memory into a
	// table; 0 means 64 MiB. Up to about four times as much can be in memory.
	// What is there is read back from the log when the store is opened after a
	// crash: no more than about 256 MiB, however large this is. A file of the log
	// becomes as large, 64 MiB at most, or as large as one commit.
	MemtableBytes int64
	// PatchBytes bounds the memory of values that were written lately, of which a commit then
	// writes only what has changed; 0 means 16 MiB, a negative value that there is none.
	PatchBytes int
	// MustExist makes Open fail with kv.ErrNoStore instead of creating a store.
	MustExist bool
	// ReadOnly opens an existing store without changing anything in it (but it
	// takes the store's lock: a store can't be read while it is open elsewhere).
	// Where the lock can't be written, for the mode of the file or a file system that is
	// read-only, a lock for reading is taken: several readers can have it, and a writer on
	// the same machine is ErrStoreInUse. Other machines don't see it: don't read a
	// directory of a network's that another machine writes to.
	// What is in the log alone is held in memory then.
	// It implies MustExist; commits are refused, with an error of the kind greenroom.ErrReadOnly.
	ReadOnly bool
	// WithoutLogRest, if it isn't nil, opens a store for reading whose log is damaged or lost, too, with every commit up to the
	// first one that can't be read: a state that the store had. Before Open returns, it gets the error that Open would return
	// else, which names the file. It isn't called if the log is whole. Only ReadOnly takes it.
	WithoutLogRest func(cause error)
	// Logger receives what Pebble reports: errors at level Error, everything
	// else at level Debug. Nil means that nothing is logged.
	Logger *slog.Logger
	// Metrics is told what Metrics() lists; nil is nobody.
	Metrics metrics.Sink

	maxLog  int64                    // in place of the constant, for tests
	records iter.Seq2[Record, error] // in place of the log of a store that is only read
}

// A DB is one open store. It implements kv.Engine, txn.Transactor, kv.Sharer, kv.Failer and kv.Spacer.
type DB struct {
	db       *pebble.DB
	dir      string
	onDisk   bool // not in a test's memory
	readOnly bool
	lock     *pebble.Lock
	meter    metrics.Meter
	fence    *workaround.Fence
	fault    *workaround.Fault
	gate     *workaround.Gate
	life     *workaround.Life
	newest   *workaround.Newest
	outcomes outcomes.Memory
	shared   sync.Map

	// commit orders commits: between the checks of one and its application
	// there is no other, so every commit takes it, also one without checks. It
	// is never held while waiting for the disk, with two exceptions: when the log
	// goes on in the next file, and see reserve.
	commit sync.Mutex
	// version grows with every applied commit, and never falls, see loadVersion; it
	// changes under commit.
	version atomic.Uint64
	// ceiling is up to which version commits of transactions may be seen, see reserve,
	// which changes it under commit.
	ceiling atomic.Uint64
	// txs are the transactions, checked what is remembered of rows; guarded by commit. recent are
	// values that can be patched.
	txs     *optimistic.Core
	checked checked
	recent  *recent
	// log is the write-ahead log, nil in a store that is only read; Append wants commit. logged are
	// the bytes that it took since the gate's watcher was last poked for that, guarded by commit.
	log     *wal.Log
	logged  int64
	clock   clock    // guarded by commit
	held    Held     // of the log; guarded by commit
	rest    *logRest // what of the log is left out, nil for nothing
	number  [8]byte  // memory for that of a batch; guarded by commit
	logFile int64    // to which size a file of the log is filled
	mostLog int64    // how many bytes of the log the tables may lack before writers wait
}

var (
	_ kv.Engine      = (*DB)(nil)
	_ kv.Sharer      = (*DB)(nil)
	_ kv.Failer      = (*DB)(nil)
	_ kv.Spacer      = (*DB)(nil)
	_ txn.Transactor = (*DB)(nil)
)

// Limits of one commit. Pebble's batch is addressed with 32 bits: 4 GiB, of which
// every entry takes some bytes besides its key and value, and a cleared range may
// take more than it is long (see clearRange).
const (
	maxKey   = 1 << 20
	maxValue = 1 << 30
	maxOps   = 1 << 24
	maxBytes = 4<<30 - 1 - maxOps*opHeader - maxExpanded - 1<<24
)

// Limits returns what Pebble's formats bound: keys of 1 MiB, values of 1 GiB,
// commits of 16,777,216 operations and 3.8 GiB.
func (d *DB) Limits() kv.Limits {
	return kv.Limits{Key: maxKey, Value: maxValue, Ops: maxOps, Bytes: maxBytes}
}

// Outcome tells what became of a recent commit of this DB. See kv.Engine.
func (d *DB) Outcome(ctx context.Context, id kv.CommitID) (kv.Outcome, error) {
	if err := d.begin(ctx); err != nil {
		return kv.OutcomeUnknown, err
	}
	defer d.life.Leave()
	return d.outcomes.Outcome(id), nil
}

// Shared returns what the users of this DB share: the store's lock keeps every
// other process out. See kv.Sharer.
func (d *DB) Shared() *sync.Map { return &d.shared }

// Records returns the log of d, nil if d is open for reading alone.
func (d *DB) Records() *Records {
	if d.log == nil {
		return nil
	}
	return &Records{d}
}

// Failed is closed when the disk has failed the store for good. See kv.Failer.
func (d *DB) Failed() <-chan struct{} { return d.fault.Done() }

// FreeSpace returns how many bytes the disk of the store has free for the process. See kv.Spacer.
func (d *DB) FreeSpace() (free int64, known bool, err error) {
	u, err := d.fence.FS.GetDiskUsage(d.dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return 0, false, nil
	}
	return int64(min(u.AvailBytes, math.MaxInt64)), err == nil, wrap(err)
}

// Sync returns when everything applied before it is on the disk. See kv.Engine.
func (d *DB) Sync(ctx context.Context, _ kv.Incarnation) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	defer d.life.Leave()
	if d.readOnly {
		return nil
	}
	return d.verdict(d.log.Sync(d.log.Last()))
}

// Incarnation returns 0: a store that lost something is poisoned. See kv.Engine.
func (d *DB) Incarnation() kv.Incarnation { return 0 }

// Close releases the store; calls that are running end first. With open scans
// or snapshots it returns an error, and the store is released when they end. On
// a poisoned store it releases what can be released and returns kv.ErrPoisoned.
func (d *DB) Close() error {
	if !d.life.Close() {
		return nil
	}
	d.commit.Lock()
	d.txs.Wake()
	d.commit.Unlock()
	if n := d.life.Pins() - 1; !d.life.Unpin() {
		return fmt.Errorf("pebblekv: closed with %d open scans or snapshots, which keep %s locked", n, d.dir)
	}
	return d.teardown()
}

// begin starts a call: d.life.leave must follow when it returned nil.
func (d *DB) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.life.Enter(); err != nil {
		return err
	}
	if err := d.fault.Get(); err != nil {
		d.life.Leave()
		return err
	}
	return nil
}

// verdict is what a call returns that got err from Pebble: on a poisoned store
// nothing that Pebble says counts any more.
func (d *DB) verdict(err error) error {
	if bad := d.fault.Get(); bad != nil {
		return bad
	}
	return wrap(err)
}

// release lets go of a pin, and of the store when it was the last one.
func (d *DB) release() error {
	if d.life.Unpin() {
		return d.teardown()
	}
	return nil
}
