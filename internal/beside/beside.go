// Package beside puts the transactions of other data models, such as items and documents, into the commits of actors.
package beside

import (
	"context"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A Model is a store of a data model, whose transactions are T.
type Model[T any] struct {
	// Owner is a pointer to the store.
	Owner any
	// DB is what the store's transactions run on.
	DB *txn.DB
	// Begin returns the transaction of the model within t.
	Begin func(ctx context.Context, t *txn.Tx) (T, error)
	// Late writes into that what the transaction has held back until the commit. It may be nil, as Landed and
	// Failed may.
	Late func(tx T) error
	// Landed, or else Failed, is called with the outcome. It must be quick, and not call into the store.
	Landed, Failed func(tx T)
}

// In returns the transaction of a model that lands in the commit of b. It is the same one in each call with b.
// Errors are those of actorstore.Beside and of Begin.
func In[T any](ctx context.Context, b *batch.Batch, m *Model[T]) (tx T, err error) {
	t, err := actorstore.Beside(ctx, b, m.DB)
	if err != nil {
		return tx, err
	}
	if p, ok := b.Enlisted(m.Owner).(*participant[T]); ok {
		return p.tx, nil
	}
	if tx, err = m.Begin(ctx, t); err == nil {
		b.Enlist(m.Owner, &participant[T]{model: m, tx: tx})
	}
	return tx, err
}

// A participant is a store's part in the commit. It implements batch.Participant.
type participant[T any] struct {
	model *Model[T]
	tx    T
	late  bool // Late was called
}

func (p *participant[T]) Late(*batch.Batch) error {
	if p.late || p.model.Late == nil {
		return nil
	}
	p.late = true
	return p.model.Late(p.tx)
}

func (p *participant[T]) Landed() {
	if p.model.Landed != nil {
		p.model.Landed(p.tx)
	}
}

func (p *participant[T]) Failed(error, bool) {
	if p.model.Failed != nil {
		p.model.Failed(p.tx)
	}
}
