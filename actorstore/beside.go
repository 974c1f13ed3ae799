package actorstore

import (
	"context"
	"fmt"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A companion is a transaction over other keys of the engine that lands with a batch. It takes part in the
// batch for companions.
type companion struct {
	db *txn.DB
	tx *txn.Tx
}

var companions = new(byte)

func (c *companion) Late(*batch.Batch) error { return nil }
func (c *companion) Landed()                 { c.tx.Cancel() }
func (c *companion) Failed(error, bool)      { c.tx.Cancel() }

// Beside returns a transaction of db over keys of the engine that aren't an actor's, such as items, that
// lands in the one engine commit of b, which Actor.Commit makes: both or neither. It is the same one in each
// call with b. The caller neither commits nor cancels it.
//
// If another commit has changed what the transaction has read, b is refused with txn.ErrStale, and the actor's
// handle stays healthy. b is refused in the same way if the actor has committed anything since the transaction's first read:
// what takes more than one engine commit takes no transaction along. db must be on the actor's engine. b's
// commit is a durable one.
func Beside(ctx context.Context, b *batch.Batch, db *txn.DB) (*txn.Tx, error) {
	if b.Settled() {
		return nil, fmt.Errorf("actorstore: a transaction beside the actor: %w", batch.ErrSettled)
	}
	if c := besideOf(b); c != nil {
		if c.db.Engine() != db.Engine() {
			return nil, errOtherEngine
		}
		return c.tx, nil
	}
	tx, err := db.Begin(ctx)
	if err != nil {
		return nil, err
	}
	b.Enlist(companions, &companion{db, tx})
	return tx, nil
}

var errOtherEngine = fmt.Errorf("actorstore: a transaction beside the actor, of another engine: %w", kv.ErrInvalid)

// besideOf returns what lands beside b, nil if nothing does.
func besideOf(b *batch.Batch) *companion {
	c, _ := b.Enlisted(companions).(*companion)
	return c
}

// writes reports whether anything is written beside the batch; c may be nil.
func (c *companion) writes() bool { return c != nil && c.tx.Writes() }

// commit makes the engine commit, together with what lands beside the batch; c may be nil.
func (c *companion) commit(ctx context.Context, eng kv.Engine, commit *kv.Commit) error {
	switch {
	case c == nil:
		return eng.Commit(ctx, commit)
	case c.db.Engine() != eng:
		return kv.NotApplied(errOtherEngine)
	}
	return c.tx.CommitWith(ctx, commit)
}
