package greenroom

import (
	"context"
	"errors"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/opentx"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/workflow"
)

// Update runs fn in a transaction, and commits it when fn returns nil. When Update returns
// nil, everything that fn has written is on stable storage. If fn or the commit fails, fn
// panics, or ctx ends before fn returns, nothing has changed, in the store or in memory. After
// ErrUnknownOutcome and ErrPoisoned the transaction has landed whole or not at all: open the
// actor again to find out which.
//
// fn runs exactly once. Updates of one actor run one after the other, in no certain order.
// An Update within fn is ErrNested, and so is a write through SQL, also on another goroutine
// with tx as its context.
//
// A part of the actor that fn doesn't use isn't opened; a transaction that writes nothing
// commits nothing. Up to the engine's limits a transaction is one commit of the engine. A
// larger one lands whole, too: pages of the database go through SQLite's journal, and
// everything else lands in the commit that ends the journal. Without SQL it is ErrTooLarge.
func (a *Actor) Update(ctx context.Context, fn func(tx *Tx) error) error {
	return a.update(ctx, fn, (*openTx).commit)
}

// UpdateApplied is Update without the wait for stable storage: when it returns, every
// reader sees the transaction, and after a crash it is there only if everything that was
// applied before it is there too. Sync waits for all of it at once.
func (a *Actor) UpdateApplied(ctx context.Context, fn func(tx *Tx) error) error {
	return a.update(ctx, fn, (*openTx).Apply)
}

func (a *Actor) update(ctx context.Context, fn func(tx *Tx) error, commit func(*openTx) error) error {
	o, err := a.begin(ctx, opentx.Options{})
	if err != nil {
		return err
	}
	if o.Span, err = spanOf(ctx, a); err != nil {
		return o.Rollback(err)
	}
	err = errPanic // unless fn returns
	defer func() {
		if err == errPanic {
			_ = o.Rollback(err)
		}
		endSpan(o.Span, err)
	}()
	if err = fn(&o.Tx); err != nil {
		err = o.Rollback(err)
		return err
	}
	err = errPanic // unless commit returns: what takes part in it may panic
	err = commit(o)
	return err
}

// errPanic is why a transaction is given up whose function panics, or ends its goroutine.
var errPanic = errors.New("greenroom: the function of the update panicked")

// Package host has no other way to these functions, and they are nothing for programs.
var _ = opentx.Provide(opentx.Hooks[*Actor, *Tx]{Begin: beginFor, Goroutine: goroutine, WithUpdater: withUpdater})

// beginFor is begin, for package host.
func beginFor(ctx context.Context, a *Actor, opts opentx.Options) (*Tx, opentx.Transaction, error) {
	o, err := a.begin(ctx, opts)
	if err != nil {
		return nil, nil, err
	}
	return &o.Tx, o, nil
}

// begin begins a transaction, when the one before has ended; see opentx.Hooks.
func (a *Actor) begin(ctx context.Context, opts opentx.Options) (*openTx, error) {
	if err := a.enter(ctx); err != nil {
		return nil, err
	}
	o := &openTx{Tx: Tx{actor: a}, Options: opts}
	o.Tx.open, o.Tx.txContext, o.Tx.labels, o.Tx.backlog = o, txContext{ctx, &o.Tx}, labels{&o.Tx}, backlog{&o.Tx}
	return o, nil
}

// due is called before something is written for which the actor must be open later.
func (o *openTx) due(action string) error {
	if o.Due == nil {
		return nil
	}
	return o.Due(action)
}

// Batch implements opentx.Transaction.
func (o *openTx) Batch() *batch.Batch { return &o.Tx.batch }

// Adopt implements opentx.Transaction.
func (o *openTx) Adopt() { o.Tx.actor.updater.Store(goroutine()) }

// SetSpan implements opentx.Transaction.
func (o *openTx) SetSpan(s *traces.Span) { o.Span = s }

// commit lands the transaction durably, unless its context is done. On an error nothing has
// landed but where Update says so.
func (o *openTx) commit() error {
	return o.land(func(tx *Tx) error {
		if tx.sql != nil {
			return tx.sql.Commit()
		}
		return tx.actor.actor.Commit(tx.ctx, &tx.batch)
	})
}

// Apply implements opentx.Transaction: it is commit without the wait for stable storage.
func (o *openTx) Apply() error {
	return o.land(func(tx *Tx) error {
		switch {
		case tx.sql != nil:
			return tx.sql.Apply()
		case tx.wrote, o.Whole: // which makes sure that the actor is as it was read
			return tx.actor.actor.ApplyIn(tx.ctx, &tx.batch, o.Incarnation)
		}
		err := tx.actor.actor.Owned(tx.ctx)
		tx.batch.Abort(err)
		return err
	})
}

func (o *openTx) land(commit func(tx *Tx) error) error {
	tx := &o.Tx
	if tx.over.Load() {
		return errTxOver
	}
	if tx.batch.Settled() { // the function, or its use of Tx.SQL, has ended it
		return o.Rollback(errTxOver)
	}
	err := context.Cause(tx.ctx)
	if err == nil && (tx.wrote || tx.sql != nil) {
		err = errors.Join(keepInput(tx), flushSpans(tx))
	}
	if err != nil {
		return o.Rollback(err)
	}
	tx.over.Store(true)
	defer tx.actor.leave()
	return commit(tx)
}

// keepInput has the actor's input land with the first transaction that stages anything, or
// changes the database. A record that can't be read is there, and so has its own.
func keepInput(tx *Tx) error {
	a := tx.actor
	if len(a.opts.Input) == 0 || a.kept.Load() {
		return nil
	}
	r, err := a.Record(tx.ctx)
	switch {
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewerFormat):
		return nil
	case err != nil:
		return err
	}
	staged := tx.wrote
	tx.batch.Late(func(b *batch.Batch) error {
		if b.Empty() && !staged {
			return nil
		}
		b.OnCommit(func() { a.kept.Store(true) })
		in := r.In(b)
		state, err := in.RawState()
		if err != nil {
			return err
		}
		return in.SetRawState(state) // which writes the record, if it isn't there
	})
	return nil
}

// Rollback implements opentx.Transaction.
func (o *openTx) Rollback(reason error) error {
	tx := &o.Tx
	if tx.over.Load() {
		return reason
	}
	tx.over.Store(true)
	defer tx.actor.leave()
	if tx.sql != nil {
		return tx.sql.Rollback(reason)
	}
	tx.batch.Abort(reason)
	return reason
}

// updaterKey is the key of an updaterOf in contexts.
type updaterKey struct{}

// An updaterOf runs the transactions of an actor.
type updaterOf struct {
	actor  *Actor
	update func(ctx context.Context, fn func(tx *Tx) error) error
}

// withUpdater returns a context with which the steps of a's workflow that are transactions are run by update.
func withUpdater(ctx context.Context, a *Actor, update func(ctx context.Context, fn func(tx *Tx) error) error) context.Context {
	return context.WithValue(ctx, updaterKey{}, updaterOf{a, update})
}

// update runs fn in a transaction of the actor whose workflow has ctx.
func update(ctx context.Context, fn func(tx *Tx) error) error {
	u, ok := ctx.Value(updaterKey{}).(updaterOf)
	if !ok {
		return workflow.Permanent(errors.New("greenroom: the workflow is not run by an actor of this package"))
	}
	return u.update(ctx, fn)
}
