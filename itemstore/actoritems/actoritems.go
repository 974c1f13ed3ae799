// Package actoritems puts items into the transactions of actors: what an Update changes in its actor
// and in a store of items lands in one commit, or not at all.
//
//	err := shop.Update(ctx, func(tx *greenroom.Tx) error {
//		items, err := actoritems.In(tx, school)
//		if err != nil {
//			return err
//		}
//		if err := items.Put(tx, &Enrolled{…}, nil); err != nil {
//			return err
//		}
//		_, err = tx.Exec("insert into fees …")
//		return err
//	})
//
// It is a package of its own so that neither actors nor items need the other.
package actoritems

import (
	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/itemstore"
)

// In returns the transaction of the store's items that lands with tx. It is the same one in each call, and of
// no use when tx is over. The store must be on the engine of the actor's.
//
// Actor and items are serializable together: if another transaction changes what this one has read of the
// items before it lands, Update is greenroom.ErrConflict, nothing has landed, and its function doesn't run again.
// Items have their versions when Update returns nil.
//
// A transaction that takes more than one commit of the engine can't take items along: it is ErrConflict, too, each
// time. So is one, once, that finds a transaction of the actor's database which was cut off, as after that or after
// a crash: it rolls that back, and can be tried again.
func In(tx *greenroom.Tx, store *itemstore.Store) (*itemstore.Tx, error) {
	t, err := actorstore.Beside(tx, tx.Batch(), store.DB())
	if err != nil {
		return nil, err
	}
	if p, ok := tx.Batch().Enlisted(store).(*participant); ok {
		return p.items, nil
	}
	items, err := store.Begin(tx, t)
	if err != nil {
		return nil, err
	}
	tx.Batch().Enlist(store, &participant{tx: tx, items: items})
	return items, nil
}

// A participant is a store's part in the commit.
type participant struct {
	tx      *greenroom.Tx
	items   *itemstore.Tx
	flushed bool
}

// Late writes what the transaction has changed among the items. It implements batch.Participant.
func (p *participant) Late(*batch.Batch) error {
	if p.flushed {
		return nil
	}
	p.flushed = true
	return p.items.Flush(p.tx)
}

// Landed implements batch.Participant.
func (p *participant) Landed() { p.items.Landed() }

// Failed implements batch.Participant.
func (p *participant) Failed(error, bool) { p.items.Undo() }
