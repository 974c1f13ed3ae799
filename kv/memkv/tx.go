package memkv

import (
	"context"
	"fmt"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// TxCaps returns everything but checkpoints. See txn.Transactor.
func (db *engine) TxCaps() txn.Caps {
	return txn.Serializable | txn.Exact | txn.ConflictRanges | txn.Versionstamps | txn.Watching | txn.Sizes
}

// Attempt begins an attempt at a transaction. See txn.Transactor.
func (db *engine) Attempt(ctx context.Context, opts txn.AttemptOptions) (txn.Attempt, error) {
	return db.txs.Attempt(ctx, opts)
}

// Watch returns a channel that receives after changes of key. See txn.Transactor.
func (db *engine) Watch(key []byte) (changed <-chan struct{}, stop func(), err error) {
	return db.txs.Watch(key)
}

// EstimatedSize returns how many bytes the keys of [start, end) and their values
// have, exactly; it looks at each of them. See txn.Transactor.
func (db *engine) EstimatedSize(ctx context.Context, start, end []byte) (int64, error) {
	n := int64(0)
	for e, err := range db.Scan(ctx, kv.Range{Start: start, End: end}) {
		if err != nil {
			return 0, err
		}
		n += int64(len(e.Key) + len(e.Value))
	}
	return n, nil
}

// Checkpoint returns kv.ErrUnsupported: memory has no directory to copy.
func (db *engine) Checkpoint(context.Context, string) error {
	return fmt.Errorf("memkv: checkpoint: %w", kv.ErrUnsupported)
}

// A txStore is a DB as the transactions see it, an optimistic.Store.
type txStore engine

// Lock takes the lock under which commits are applied.
func (s *txStore) Lock() { s.mu.Lock() }

// Unlock gives it back.
func (s *txStore) Unlock() { s.mu.Unlock() }

// Enter begins a commit.
func (s *txStore) Enter(ctx context.Context) error { return (*engine)(s).check(ctx) }

// Leave ends a commit.
func (s *txStore) Leave() {}

// Snapshot pins the newest state.
func (s *txStore) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	return (*engine)(s).Snapshot(ctx)
}

// Pin is Snapshot with the lock held.
// +checklocks:s.mu
func (s *txStore) Pin(ctx context.Context) (kv.Snapshot, error) {
	db := (*engine)(s)
	if err := db.check(ctx); err != nil {
		return nil, err
	}
	if s.frozen == nil {
		s.frozen = s.tree.Copy()
	}
	return &snapshot{db: db, tree: s.frozen}, nil
}

// Version returns the number of the newest commit.
// +checklocks:s.mu
func (s *txStore) Version() uint64 { return s.version }

// Read appends the newest value of key to dst.
// +checklocks:s.mu
func (s *txStore) Read(key, dst []byte) ([]byte, error) {
	e, ok := s.tree.Get(kv.Entry{Key: key})
	if !ok {
		return dst, kv.ErrNotFound
	}
	return append(dst, e.Value...), nil
}

// Valid refuses what makes no sense.
func (s *txStore) Valid(ops []kv.Op) error { return validate(ops) }

// Apply applies ops as the commit of that version.
// +checklocks:s.mu
func (s *txStore) Apply(ops []kv.Op, version uint64) (wait func() error, err error) {
	if s.closed.Load() {
		return nil, kv.ErrClosed
	}
	(*engine)(s).applyOps(ops)
	s.version = version
	return func() error { return nil }, nil
}

// Record remembers an outcome.
func (s *txStore) Record(id kv.CommitID, o kv.Outcome) { s.outcomes.Record(id, o) }
