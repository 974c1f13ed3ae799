// Package greenroom opens stores of actors. An actor (a chat room, an agent, a tenant) has a
// private space of keys, and in it a SQLite database, a queue, a schedule, a state, a
// workflow, connections and traces. One transaction changes any of them in one commit.
//
//	     Open, New
//	         │
//	       Store ─── Actors, View, Fork, Drop
//	         │ Actor
//	       Actor ─── SQL, View, Handle and Run, OpenWorkflow, Sync
//	         │ Update, UpdateApplied
//	        Tx         one commit, or nothing
//	┌────────┼─────────────┬───────────────┬───────────────┬───────────────┐
//	SQL      keys          queue           schedule        state           the rest
//	Exec     Get, Put      Enqueue         At, After       State           Connections
//	Query    Delete, List  Receive         Schedule        SetState        Span
//	                       Message.        Cancel          Mutate          Batch
//	                       Complete        Events
//
// A program opens a Store, in a directory with Open or on any engine with New, and takes
// actors by their names. The process that has an Actor owns it: no other one can take it
// meanwhile, and a process that takes it over afterwards fences it. What an actor stores is
// changed by Update, whose function gets a Tx: everything that is written through the Tx
// lands in one commit of the engine, or nothing of it does, and a transaction reads what it
// has written. A View is everything as of one moment, for reading. SQL returns the database
// as a *sql.DB, for readers, migrations and libraries that want one.
//
// Handle says which function is called for a message or an event of the schedule, in a
// transaction with which it is done, and Run calls them. RunWorkflow runs a workflow, whose
// steps are such transactions by StepTx. Package host does all of this for many actors,
// which it wakes when something is due and puts to sleep when nothing is.
//
// Each part of an actor opens when it is first used, and Actor.Close closes all of them. The
// parts can be used alone, by packages vfs, queue, persist, conn, traces and workflow on an
// actorstore.Actor; Store.Lower has that layer.
package greenroom

// Files, from the top down:
//
//	migrations.go deliver.go txparts.go workflow.go together.go update.go spans.go userkeys.go actor.go view.go tx.go parts.go
//	rows.go store.go restore.go options.go roster.go doc.go errors.go goroutine.go state.go
