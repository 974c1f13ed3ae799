// Package memkv is the kv.Engine that lives in memory: for tests, as the oracle
// that other engines are compared with, and for stores that may be lost.
//
// It keeps all entries in one copy-on-write B-tree, so that a snapshot costs
// the same whatever the size of the store, and never blocks a writer. It is not
// durable: every Durability is the same, and Close forgets everything. Its
// transactions are those of kv/internal/optimistic.
package memkv

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/optimistic"
	"github.com/greenroomdb/greenroom/kv/internal/outcomes"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// An engine is one store in memory. It implements kv.Engine and txn.Transactor.
type engine struct {
	outcomes outcomes.Memory
	shared   sync.Map
	closed   atomic.Bool
	txs      *optimistic.Core

	mu sync.RWMutex
	// tree is the newest applied state. Its entries are immutable: a value is
	// replaced, never overwritten, so readers may use it after unlocking.
	tree *btree.BTreeG[kv.Entry] // +checklocks:mu
	// frozen is a copy of tree for scans and snapshots, shared by all of them
	// until the next commit, or nil.
	frozen *btree.BTreeG[kv.Entry] // +checklocks:mu
	// doomed is scratch space for the keys of a range that is being cleared.
	doomed [][]byte // +checklocks:mu
	// version counts the commits.
	version uint64 // +checklocks:mu
}

var (
	_ kv.Engine      = (*engine)(nil)
	_ kv.Sharer      = (*engine)(nil)
	_ txn.Transactor = (*engine)(nil)
)

// New returns an empty store. It is a txn.Transactor, a kv.Sharer and a kv.RangesScanner as well, and
// safe for concurrent use. The caller closes it.
func New() kv.Engine {
	db := &engine{tree: newTree()}
	db.txs = optimistic.New((*txStore)(db))
	return db
}

// Clone returns another store with the entries of one that New has made. It copies none of them, and
// neither store sees what is written to the other afterwards. Of any other engine it returns
// kv.ErrUnsupported, of one that is closed kv.ErrClosed. It is safe to call while the store is used.
// The caller closes the clone.
func Clone(e kv.Engine) (kv.Engine, error) {
	db, ok := e.(*engine)
	if !ok {
		return nil, fmt.Errorf("memkv: clone %T: %w", e, kv.ErrUnsupported)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed.Load() {
		return nil, kv.ErrClosed
	}
	c := &engine{tree: db.tree.Copy(), version: db.version}
	c.txs = optimistic.New((*txStore)(c))
	return c, nil
}

func newTree() *btree.BTreeG[kv.Entry] {
	// The tree's own locks are off: engine.mu guards the newest state, and a frozen
	// copy is never written to.
	return btree.NewBTreeGOptions(func(a, b kv.Entry) bool {
		return bytes.Compare(a.Key, b.Key) < 0
	}, btree.Options{NoLocks: true})
}

// check says why no call may go on: the context is done or the store is closed.
func (db *engine) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if db.closed.Load() {
		return kv.ErrClosed
	}
	return nil
}

// Get appends the newest value of key to dst. See kv.Reader.
func (db *engine) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if err := db.check(ctx); err != nil {
		return dst, err
	}
	db.mu.RLock()
	e, ok := db.tree.Get(kv.Entry{Key: key})
	db.mu.RUnlock()
	if !ok {
		return dst, db.missing()
	}
	return append(dst, e.Value...), nil
}

// missing is what the absence of a key means. Close may have come between check
// and the lock, and has emptied the tree.
func (db *engine) missing() error {
	if db.closed.Load() {
		return kv.ErrClosed
	}
	return kv.ErrNotFound
}

// Scan yields the entries of r in the state at the start of the iteration. See
// kv.Reader.
func (db *engine) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return reading(ctx, db, func(tree *btree.BTreeG[kv.Entry], yield func(kv.Entry, error) bool) {
		db.scan(ctx, tree, r, yield)
	})
}

// reading yields what read yields of the state at the start of the iteration.
func reading(ctx context.Context, db *engine, read func(tree *btree.BTreeG[kv.Entry], yield func(kv.Entry, error) bool)) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		err := db.check(ctx)
		var tree *btree.BTreeG[kv.Entry]
		if err == nil {
			tree, err = db.freeze()
		}
		if err != nil {
			yield(kv.Entry{}, err)
			return
		}
		read(tree, yield)
	}
}

// Snapshot pins the newest state. See kv.Engine.
func (db *engine) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	if err := db.check(ctx); err != nil {
		return nil, err
	}
	tree, err := db.freeze()
	if err != nil {
		return nil, err
	}
	return &snapshot{db: db, tree: tree}, nil
}

// freeze returns an immutable copy of the newest state.
func (db *engine) freeze() (*btree.BTreeG[kv.Entry], error) {
	db.mu.RLock()
	f := db.frozen
	db.mu.RUnlock()
	if f != nil {
		return f, nil
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed.Load() {
		return nil, kv.ErrClosed
	}
	if db.frozen == nil {
		db.frozen = db.tree.Copy()
	}
	return db.frozen, nil
}

// Commit applies c; every Durability is reached at once. See kv.Engine.
func (db *engine) Commit(ctx context.Context, c *kv.Commit) error {
	if err := db.check(ctx); err != nil {
		return kv.NotApplied(err)
	}
	if err := validate(c.Ops); err != nil {
		return kv.NotApplied(err)
	}
	if err := db.apply(c); err != nil {
		db.outcomes.Record(c.ID, kv.OutcomeNotApplied)
		return kv.NotApplied(err)
	}
	if c.OnApply != nil {
		c.OnApply()
	}
	return nil
}

// validate refuses what makes no sense.
func validate(ops []kv.Op) error {
	for i := range ops {
		o := &ops[i]
		must := o.Key
		if o.Kind == kv.OpClearRange {
			must = o.Value
		}
		if o.Kind > kv.OpClearRange || len(must) == 0 {
			return fmt.Errorf("memkv: op %d: %w", i, kv.ErrInvalid)
		}
	}
	return nil
}

func (db *engine) apply(c *kv.Commit) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	// Close may have come between check and the lock, and has emptied the tree.
	if db.closed.Load() {
		return kv.ErrClosed
	}
	if c.In != 0 {
		return fmt.Errorf("memkv: %w", kv.ErrIncarnation)
	}
	for i := range c.Checks {
		ch := &c.Checks[i]
		e, ok := db.tree.Get(kv.Entry{Key: ch.Key})
		if ok == ch.Absent || ok && !bytes.Equal(e.Value, ch.Value) {
			return fmt.Errorf("memkv: check %d: %w", i, kv.ErrConflict)
		}
	}
	db.applyOps(c.Ops)
	if db.version++; db.txs.Busy() {
		db.txs.Applied(c.Ops, db.version)
	}
	db.outcomes.Record(c.ID, kv.OutcomeApplied)
	return nil
}

// applyOps makes a new newest state.
// +checklocks:db.mu
func (db *engine) applyOps(ops []kv.Op) {
	db.frozen = nil
	for i := range ops {
		db.applyOp(&ops[i])
	}
}

// applyOp applies one operation to the tree.
// +checklocks:db.mu
func (db *engine) applyOp(o *kv.Op) {
	switch o.Kind {
	case kv.OpSet:
		// Key and value share one allocation; both slices are full, so that no
		// append by a reader can run from one into the other.
		n := len(o.Key)
		b := make([]byte, n+len(o.Value))
		copy(b, o.Key)
		copy(b[n:], o.Value)
		db.tree.Set(kv.Entry{Key: b[:n:n], Value: b[n:]})
	case kv.OpClear:
		db.tree.Delete(kv.Entry{Key: o.Key})
	case kv.OpClearRange:
		// The keys are collected first: the tree must not change under an
		// iterator.
		db.doomed = db.doomed[:0]
		db.tree.Ascend(kv.Entry{Key: o.Key}, func(e kv.Entry) bool {
			if bytes.Compare(e.Key, o.Value) >= 0 {
				return false
			}
			db.doomed = append(db.doomed, e.Key)
			return true
		})
		for _, k := range db.doomed {
			db.tree.Delete(kv.Entry{Key: k})
		}
		clear(db.doomed)
	}
}

// Outcome tells what became of a recent commit of this DB. See kv.Engine.
func (db *engine) Outcome(ctx context.Context, id kv.CommitID) (kv.Outcome, error) {
	if err := db.check(ctx); err != nil {
		return kv.OutcomeUnknown, err
	}
	return db.outcomes.Outcome(id), nil
}

// Sync does nothing: memory is all the storage there is.
func (db *engine) Sync(ctx context.Context, _ kv.Incarnation) error { return db.check(ctx) }

// Incarnation returns 0: nothing is lost but with the process.
func (db *engine) Incarnation() kv.Incarnation { return 0 }

// Limits returns the zero Limits: memory is the only bound.
func (db *engine) Limits() kv.Limits { return kv.Limits{} }

// Shared returns what the users of this DB share. See kv.Sharer.
func (db *engine) Shared() *sync.Map { return &db.shared }

// Close forgets everything. Calls after it, or running beside it, return
// kv.ErrClosed or what they would have returned before.
func (db *engine) Close() error {
	if db.closed.Swap(true) {
		return nil
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.tree, db.frozen, db.doomed = newTree(), nil, nil
	db.txs.Wake()
	return nil
}
