package main

import (
	"path/filepath"

	"github.com/ncruces/go-sqlite3"
)

// openRows is how many rows the databases of sqlite/open have.
const openRows = 100

// openings opens sqlite/open: a database that is nowhere open is opened, its first row read,
// and all closed again, one database after the other. What enter opens for that is closed by
// the visit that it is in.
func openings(s *stand, enter func(s *stand, i int) *sqlite3.Conn) {
	for i := range s.sizes.opens {
		check(s.visit(func(*stand) { load(s, enter(s, i), openRows) }))
	}
	next := 0
	s.workers = []worker{repeat(func() error {
		next = (next + 1) % s.sizes.opens
		return s.visit(func(*stand) { readRow(s, enter(s, next), 1) })
	})}
}

// openFiles visits files.
func openFiles(s *stand) { openings(s, enterFile) }

// enterFile opens the i-th file. Its mode is in it: only the first visit changes it.
func enterFile(s *stand, i int) *sqlite3.Conn {
	return connect(s, filepath.Join(s.dir, name(i)), "journal_mode=WAL")
}

// openActors visits actors, and mounts their databases for that; their store stays open, as
// the file system does.
func openActors(s *stand) {
	s.openStore()
	openings(s, enterActor)
}

// openMany opens sqlite/open-many: the same in a store of many other actors, whose databases
// have a row each.
func openMany(s *stand) {
	s.openStore()
	for i := range s.sizes.many {
		check(s.visit(func(*stand) {
			check(enterActor(s, s.sizes.opens+i).Exec(`PRAGMA synchronous = OFF; ` + createTable + `; INSERT INTO t VALUES(1, 1, x'')`))
		}))
	}
	s.restart()
	openActors(s)
}

// fewActors is its peer: sqlite/open.
const fewActors = "few"

// enterActor opens the database of the i-th actor.
func enterActor(s *stand, i int) *sqlite3.Conn { return connect(s, mount(s, s.actor(name(i)))) }

// rowStride is so far that the rows are of different pages, and no divisor of their number.
const rowStride = 7919

// openCold opens sqlite/open-cold: a database of which its process knows nothing is opened, and
// one of the rows of a large table read: each another one, since a database is read ahead where
// it was read the last time.
func openCold(s *stand, enter func(*stand) *sqlite3.Conn) {
	check(s.visit(func(*stand) { load(s, enter(s), s.sizes.scan) }))
	next := 0
	s.workers = []worker{repeat(func() error {
		next = (next + rowStride) % s.sizes.scan
		return s.visit(func(*stand) { readRow(s, enter(s), 1+next) })
	})}
}

// openColdActor opens an actor with a store of its own on one engine, and openColdFile a file.
func openColdActor(s *stand) {
	s.openEngine()
	openCold(s, func(s *stand) *sqlite3.Conn { s.openStore(); return enterActor(s, 0) })
}

func openColdFile(s *stand) { openCold(s, func(s *stand) *sqlite3.Conn { return enterFile(s, 0) }) }
