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
	"github.com/greenroomdb/greenroom/internal/beside"
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
	return beside.In(tx, tx.Batch(), &beside.Model[*itemstore.Tx]{
		Owner: store, DB: store.DB(), Begin: store.Begin,
		Late:   func(items *itemstore.Tx) error { return items.Flush(tx) },
		Landed: (*itemstore.Tx).Landed,
		Failed: (*itemstore.Tx).Undo,
	})
}
