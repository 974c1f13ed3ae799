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
	if err := d.store.begin(ctx); err != nil {
		return nil, err
	}
	defer d.store.life.Leave()
	return d.commits.txs.Attempt(ctx, opts)
}

// Watch returns a channel that receives after changes of key. See txn.Transactor.
func (d *DB) Watch(key []byte) (changed <-chan struct{}, stop func(), err error) {
	if err := d.store.begin(context.Background()); err != nil {
		return nil, nil, err
	}
	defer d.store.life.Leave()
	return d.commits.txs.Watch(key)
}

// EstimatedSize returns about how much of the disk the keys of [start, end) take:
// compressed, with what is overwritten and not yet compacted, and without what is
// still in memory. See txn.Transactor.
func (d *DB) EstimatedSize(ctx context.Context, start, end []byte) (int64, error) {
	if err := d.store.begin(ctx); err != nil {
		return 0, err
	}
	defer d.store.life.Leave()
	if end == nil {
		end = afterOwn // few stores have much behind it
	}
	if string(start) >= string(end) {
		return 0, nil
	}
	n, err := d.store.db.EstimateDiskUsage(start, end)
	return int64(n), d.store.verdict(err)
}

// Checkpoint makes a copy of the newest state in the directory dir, which must not
// exist and not be inside the store's. It is a store that Open opens; it shares
// tables with this one by hard links where the file system can, and those keep their mode;
// what is made has the modes that Open says. A store that is only read can't be copied. See
// txn.Transactor.
func (d *DB) Checkpoint(ctx context.Context, dir string) error {
	if err := d.store.begin(ctx); err != nil {
		return err
	}
	defer d.store.life.Leave()
	if d.store.readOnly {
		return errReadOnly
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("pebblekv: checkpoint: %w", err)
	}
	if !d.store.onDisk {
		path = dir
	}
	if path == d.store.dir || strings.HasPrefix(path, d.store.dir+string(filepath.Separator)) {
		return fmt.Errorf("pebblekv: checkpoint into the store's own directory %s: %w", d.store.dir, kv.ErrInvalid)
	}
	return d.store.verdict(d.commits.checkpoint(ctx, path))
}

// A txStore is a store as the transactions see it, an optimistic.Store.
type txStore struct {
	commits *committer
	reads   *reader
}

// Lock takes the lock under which commits are applied.
func (s *txStore) Lock() { s.commits.order.Lock() }

// Unlock gives it back.
func (s *txStore) Unlock() { s.commits.order.Unlock() }

// Enter begins a commit.
func (s *txStore) Enter(ctx context.Context) error {
	w := s.commits
	if err := w.begin(ctx); err != nil {
		return err
	}
	err := w.gate.Wait(ctx)
	if w.readOnly {
		err = errReadOnly
	}
	// With much to spare, so that Apply seldom has to.
	if least := w.version.Load() + versionGap/2; err == nil && w.ceiling.Load() < least {
		w.order.Lock()
		err = w.reserve(least)
		w.order.Unlock()
	}
	if err != nil {
		w.life.Leave()
	}
	return err
}

// Leave ends a commit.
func (s *txStore) Leave() { s.commits.life.Leave() }

// Snapshot pins the newest state.
func (s *txStore) Snapshot(ctx context.Context) (kv.Snapshot, error) { return s.reads.snapshot(ctx) }

// Pin is Snapshot, which takes no lock.
func (s *txStore) Pin(ctx context.Context) (kv.Snapshot, error) { return s.reads.snapshot(ctx) }

// Version returns the version of the newest commit.
func (s *txStore) Version() uint64 { return s.commits.version.Load() }

// Read appends the newest value of key to dst.
func (s *txStore) Read(key, dst []byte) ([]byte, error) { return s.reads.get(s.reads.db, key, dst) }

// Valid refuses what measure does, and what the disk has no room for.
func (s *txStore) Valid(ops []kv.Op) error {
	size, err := measure(&kv.Commit{Ops: ops})
	if err == nil {
		err = s.commits.room.admit(int64(size), ops)
	}
	return err
}

// Apply applies ops as one batch.
func (s *txStore) Apply(ops []kv.Op, version uint64) (wait func() error, err error) {
	w := s.commits
	if err := w.fault.Get(); err != nil {
		return nil, err
	}
	c := &kv.Commit{Ops: ops}
	size, err := measure(c)
	if err == nil {
		err = w.reserve(version) // it is, unless half a gap of commits came since Enter
	}
	if err != nil {
		return nil, err
	}
	b, e := w.newBatch(size), encodings.Get().(*encoding)
	defer encodings.Put(e)
	if err = w.encode(b, c, size, e); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	number, err := w.write(b, c, e)
	if err != nil {
		return nil, err
	}
	w.version.Store(version)
	return func() error { return w.finish(c, b, number) }, nil
}

// Record remembers an outcome.
func (s *txStore) Record(id kv.CommitID, o kv.Outcome) { s.commits.outcomes.Record(id, o) }
