package vfs

import "github.com/ncruces/go-sqlite3"

// A session is what the parts of a database know of a connection. Its connection changes it, but for strict.
type session struct {
	settings
	told   *toldMemory // what SQLite was told, for its user; the connection's
	logged bool        // it has the log open: WAL mode, see logmode.go
	strict bool        // it holds EXCLUSIVE as files do: no other connection reads  +checklocks:turns.mu
	left   bool        // it was closed while its pool is open, since it was idle
	ended  bool        // this statement has stored the end of a transaction, or of a rollback
	staged *staged     // what lands with the transaction that is under way
}

// tell remembers what SQLite is told, for the connection's pool.
func (s *session) tell(err error, ioerr sqlite3.ExtendedErrorCode) {
	if err != nil && !ofSQLite(err) {
		s.told.tell(err, sqliteCode(err, ioerr))
	}
}

// syncLevel returns the level of synchronous that SQLite goes by.
func (s *session) syncLevel() syncLevel { return s.synchronous(s.logged) }

// awaited says whether a commit of the session is waited for.
func (s *session) awaited() bool {
	return s.syncLevel() >= syncFull && (s.staged == nil || !s.staged.applied)
}
