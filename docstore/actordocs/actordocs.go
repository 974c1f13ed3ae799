// Package actordocs puts documents into the transactions of actors: what an Update changes in its actor and in a store
// of documents lands in one commit, or not at all.
//
//	err := shop.Update(ctx, func(tx *greenroom.Tx) error {
//		docs, err := actordocs.In(tx, library)
//		if err != nil {
//			return err
//		}
//		if err := docs.SetProperty(tx, "/books/emma", "lentTo", "ada"); err != nil {
//			return err
//		}
//		_, err = tx.Exec("insert into loans …")
//		return err
//	})
//
// It is a package of its own so that neither actors nor documents need the other.
package actordocs

import (
	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/internal/beside"
)

// In returns the transaction of the store's documents that lands with tx. It is the same one in each call, and of no use
// when tx is over. The store must be on the engine of the actor's.
//
// Actor and documents are serializable together: if another transaction changes what this one has read of the documents
// before it lands, Update is greenroom.ErrConflict, nothing has landed, and its function doesn't run again.
//
// A transaction that takes more than one commit of the engine can't take documents along: it is ErrConflict, too, each
// time. So is one, once, that finds a transaction of the actor's database which was cut off, as after that or after a
// crash: it rolls that back, and can be tried again. A set of an imported store that is too large to be taken apart in a
// transaction is an error that says so: change it by docstore.Store.Update once.
//
// When a text index got many documents, the next call of In for the store looks after it, in transactions of its own.
func In(tx *greenroom.Tx, store *docstore.Store) (*docstore.Tx, error) {
	if tx.Batch().Enlisted(store) == nil {
		store.Tend(tx)
	}
	return beside.In(tx, tx.Batch(), &beside.Model[*docstore.Tx]{
		Owner: store, DB: store.DB(), Begin: store.Begin,
		// Changes are in the transaction of the engine already, so nothing is left to write late, and nothing to undo.
		Late: (*docstore.Tx).Err, Landed: store.Landed,
	})
}
