package faultkv

import (
	"context"
	"fmt"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// TxCaps passes on what the engine below offers. See txn.Transactor.
func (e *Engine) TxCaps() txn.Caps {
	if t := txn.TransactorOf(e.below); t != nil {
		return t.TxCaps()
	}
	return 0
}

// Attempt begins an attempt at a transaction. Its reads are counted, and fail, like
// those of a snapshot, and its commit like a commit of the engine: at the points of a
// commit Op.Commit holds its operations (an atomic or versionstamped one as an OpSet). An
// attempt that changes nothing doesn't count as a commit.
func (e *Engine) Attempt(ctx context.Context, opts txn.AttemptOptions) (txn.Attempt, error) {
	t := txn.TransactorOf(e.below)
	if t == nil {
		return nil, fmt.Errorf("faultkv: %w", kv.ErrUnsupported)
	}
	e.attempts.Add(1)
	if err := e.at(ctx, Op{Point: BeforeAttempt}); err != nil {
		return nil, err
	}
	a, err := t.Attempt(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &attempt{reader{a, e}, a}, nil
}

// Watch is txn.Transactor's. No fault meets it.
func (e *Engine) Watch(key []byte) (changed <-chan struct{}, stop func(), err error) {
	if t := txn.TransactorOf(e.below); t != nil {
		return t.Watch(key)
	}
	return nil, nil, fmt.Errorf("faultkv: %w", kv.ErrUnsupported)
}

// EstimatedSize is txn.Transactor's. No fault meets it.
func (e *Engine) EstimatedSize(ctx context.Context, start, end []byte) (int64, error) {
	if t := txn.TransactorOf(e.below); t != nil {
		return t.EstimatedSize(ctx, start, end)
	}
	return 0, fmt.Errorf("faultkv: %w", kv.ErrUnsupported)
}

// Checkpoint is txn.Transactor's. No fault meets it.
func (e *Engine) Checkpoint(ctx context.Context, dir string) error {
	if t := txn.TransactorOf(e.below); t != nil {
		return t.Checkpoint(ctx, dir)
	}
	return fmt.Errorf("faultkv: %w", kv.ErrUnsupported)
}

// An attempt counts what an attempt does, and makes it fail.
type attempt struct {
	reader
	attempt txn.Attempt
}

// Commit meets the points of a commit. AfterApply comes after the commit below has
// returned: there is nothing to call in between.
func (a *attempt) Commit(ctx context.Context, c *txn.Commit) (txn.Stamp, error) {
	if len(c.Ops) == 0 && len(c.Writes) == 0 {
		return a.attempt.Commit(ctx, c)
	}
	e := a.e
	as := asCommit(c)
	e.count(as)
	if err := e.at(ctx, Op{Point: BeforeCommit, Commit: as}); err != nil {
		return txn.Stamp{}, err
	}
	var t *tear
	if p := e.plan.Load(); p != nil {
		t = p.tear
	}
	if !t.admit() {
		return txn.Stamp{}, ErrTorn
	}
	stamp, err := a.attempt.Commit(ctx, c)
	t.done(err == nil)
	if err == nil {
		err = e.at(ctx, Op{Point: AfterApply, Commit: as})
	}
	if err == nil {
		err = e.at(ctx, Op{Point: AfterCommit, Commit: as})
	}
	if err != nil {
		stamp = txn.Stamp{}
	}
	return stamp, err
}

// asCommit is c as a commit of the engine, as far as one can say it.
func asCommit(c *txn.Commit) *kv.Commit {
	as := &kv.Commit{ID: c.ID, Ops: make([]kv.Op, 0, len(c.Ops))}
	for i := range c.Ops {
		switch o := &c.Ops[i]; o.Kind {
		case kv.OpClear:
			as.Ops = append(as.Ops, kv.Clear(o.Key))
		case kv.OpClearRange:
			as.Ops = append(as.Ops, kv.ClearRange(o.Key, o.Value))
		default:
			as.Ops = append(as.Ops, kv.Set(o.Key, o.Value))
		}
	}
	return as
}
