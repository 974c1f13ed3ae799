package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// TxCaps returns everything there is. See txn.Transactor.
func (d *DB) TxCaps() txn.Caps {
	return txn.Serializable | txn.Exact | txn.ConflictRanges | txn.Versionstamps | txn.Watching | txn.Sizes | txn.Checkpoints
}

// Attempt begins an attempt at a transaction. See txn.Transactor.
func (d *DB) Attempt(ctx context.Context, opts txn.AttemptOptions) (txn.Attempt, error) {
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	defer d.life.Leave()
	return d.txs.Attempt(ctx, opts)
}

// Watch returns a channel that receives after changes of key. See txn.Transactor.
func (d *DB) Watch(key []byte) (changed <-chan struct{}, stop func(), err error) {
	if err := d.begin(context.Background()); err != nil {
		return nil, nil, err
	}
	defer d.life.Leave()
	return d.txs.Watch(key)
}

// EstimatedSize returns about how much of the disk the keys of [start, end) take:
// compressed, with what is overwritten and not yet compacted, and without what is
// still in memory. See txn.Transactor.
func (d *DB) EstimatedSize(ctx context.Context, start, end []byte) (int64, error) {
	if err := d.begin(ctx); err != nil {
		return 0, err
	}
	defer d.life.Leave()
	if end == nil {
		end = afterOwn // nobody has much behind it
	}
	if string(start) >= string(end) {
		return 0, nil
	}
	n, err := d.db.EstimateDiskUsage(start, end)
	return int64(n), d.verdict(err)
}

// Checkpoint makes a copy of the newest state in the directory dir, which must not
// exist and not be inside the store's. It is a store that Open opens; it shares
// tables with this one by hard links where the file system can, and those keep their mode;
// what is made has the modes that Open says. A store that is only read can't be copied. See
// txn.Transactor.
func (d *DB) Checkpoint(ctx context.Context, dir string) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	defer d.life.Leave()
	if d.readOnly {
		return errReadOnly
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("pebblekv: checkpoint: %w", err)
	}
	if !d.onDisk {
		path = dir
	}
	if path == d.dir || strings.HasPrefix(path, d.dir+string(filepath.Separator)) {
		return fmt.Errorf("pebblekv: checkpoint into the store's own directory %s: %w", d.dir, kv.ErrInvalid)
	}
	return d.verdict(checkpoint(ctx, d, path))
}

// A txStore is a DB as the transactions see it, an optimistic.Store.
type txStore DB

// Lock takes the lock under which commits are applied.
func (s *txStore) Lock() { s.commit.Lock() }

// Unlock gives it back.
func (s *txStore) Unlock() { s.commit.Unlock() }

// Enter begins a commit.
func (s *txStore) Enter(ctx context.Context) error {
	d := (*DB)(s)
	if err := d.begin(ctx); err != nil {
		return err
	}
	err := d.gate.Wait(ctx)
	if d.readOnly {
		err = errReadOnly
	}
	// With much to spare, so that Apply seldom has to.
	if least := d.version.Load() + versionGap/2; err == nil && d.ceiling.Load() < least {
		d.commit.Lock()
		err = d.reserve(least)
		d.commit.Unlock()
	}
	if err != nil {
		d.life.Leave()
	}
	return err
}

// Leave ends a commit.
func (s *txStore) Leave() { s.life.Leave() }

// Snapshot pins the newest state.
func (s *txStore) Snapshot(ctx context.Context) (kv.Snapshot, error) { return (*DB)(s).Snapshot(ctx) }

// Pin is Snapshot, which takes no lock.
func (s *txStore) Pin(ctx context.Context) (kv.Snapshot, error) { return (*DB)(s).Snapshot(ctx) }

// Version returns the version of the newest commit.
func (s *txStore) Version() uint64 { return s.version.Load() }

// Read appends the newest value of key to dst.
func (s *txStore) Read(key, dst []byte) ([]byte, error) { return (*DB)(s).get(s.db, key, dst) }

// Valid refuses what measure does.
func (s *txStore) Valid(ops []kv.Op) error {
	_, err := measure(&kv.Commit{Ops: ops})
	return err
}

// Apply applies ops as one batch.
func (s *txStore) Apply(ops []kv.Op, version uint64) (wait func() error, err error) {
	d := (*DB)(s)
	if err := d.fault.Get(); err != nil {
		return nil, err
	}
	c := &kv.Commit{Ops: ops}
	size, err := measure(c)
	if err == nil {
		err = d.reserve(version) // it is, unless half a gap of commits came since Enter
	}
	if err != nil {
		return nil, err
	}
	b, e := d.newBatch(size), encodings.Get().(*encoding)
	defer encodings.Put(e)
	if err = d.encode(b, c, size, e); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	number, err := d.write(b, c, e)
	if err != nil {
		return nil, err
	}
	d.version.Store(version)
	return func() error { return d.finish(c, b, number) }, nil
}

// Record remembers an outcome.
func (s *txStore) Record(id kv.CommitID, o kv.Outcome) { s.outcomes.Record(id, o) }
