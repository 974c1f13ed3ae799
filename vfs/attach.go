package vfs

import "sync"

// A connection may write one of the databases that it has open. A transaction
// over two actors would be two commits, and SQLite's own answer to that, a
// super-journal, has no place among an actor's keys. The others are read-only.

// connections says what the files of one connection share. It is process-wide because
// connections are: two databases of one may come from two VFSes.
var connections = struct {
	sync.Mutex
	of map[any]*shared // +checklocks:Mutex
}{of: map[any]*shared{}}

// A shared is what the files of one connection share.
type shared struct {
	files  int
	writer *handle // the file that it may write
	told   *toldMemory
}

// SetDB is told which connection a file belongs to, once, right after it was
// opened (SQLITE_FCNTL_PDB).
//
// https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlpdb
func (h *handle) SetDB(conn any) {
	if conn == nil || h.conn != nil {
		return
	}
	connections.Lock()
	defer connections.Unlock()
	c := connections.of[conn]
	if c == nil {
		c = &shared{told: h.told}
		connections.of[conn] = c
	}
	c.files++
	h.conn, h.told = conn, c.told
	switch {
	case h.readOnly:
	case c.writer == nil:
		c.writer = h
	default:
		h.readOnly = true
	}
}

// leaveConnection takes h from the files of its connection, which may write another one then.
func leaveConnection(conn any, h *handle) {
	connections.Lock()
	defer connections.Unlock()
	c := connections.of[conn]
	if c == nil {
		return // SQLite has not said which it is
	}
	if c.writer == h {
		c.writer = nil
	}
	if c.files--; c.files == 0 {
		delete(connections.of, conn)
	}
}
