// Package greenroom opens stores of actors: an actor (a chat room, an agent, a tenant)
// has a private space of keys, and in it a SQLite database, all of which one transaction
// changes in one commit.
//
//	        Open, New
//	            │
//	          Store ── Actors, Fork, Drop
//	            │ Actor                  │ View
//	          Actor                     View      one snapshot, for reading
//	            │ Update                  │
//	            Tx                        │       one commit, or nothing
//	   ┌────────┴────────┐        ┌───────┴──────┐
//	SQL: Exec, Query   keys: Get, Put, List   Query, Get, List
//
// A program opens a Store, in a directory with Open or on any engine with New, and takes
// actors by their names. The process that has an Actor owns it: no other one can take it
// meanwhile, and whoever takes it over afterwards fences it. What an actor stores is
// changed by Update, whose function gets a Tx: everything that is written through the Tx
// lands in one commit of the engine, or nothing of it does. SQL returns the database as a
// *sql.DB, for readers, migrations and libraries that want one.
//
// The parts that an actor is made of can be used alone, by packages vfs, queue, persist,
// conn, traces and workflow on an actorstore.Actor; Store.Lower has that layer.
package greenroom
