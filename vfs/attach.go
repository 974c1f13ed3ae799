package vfs

import "sync"

// A connection may write one of the databases that it has open. A transaction
// over two actors would be two commits, and SQLite's own answer to that, a
// super-journal, has no place among an actor's keys. The others are read-only.

// writers says which file a connection may write. It is process-wide because
// connections are: two databases of one may come from two VFSes.
var writers struct {
	sync.Mutex
	file map[any]*handle // +checklocks:Mutex
}

// SetDB is told which connection a file belongs to, once, right after it was
// opened (SQLITE_FCNTL_PDB).
//
// https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlpdb
func (h *handle) SetDB(conn any) {
	h.use.belongs(conn)
	if h.readOnly || conn == nil || h.conn != nil {
		return
	}
	writers.Lock()
	defer writers.Unlock()
	if writers.file[conn] != nil {
		h.readOnly = true
		return
	}
	if writers.file == nil {
		writers.file = map[any]*handle{}
	}
	h.conn = conn
	writers.file[conn] = h
}

// leave lets h's connection write another file.
func (h *handle) leave() {
	if h.conn == nil {
		return
	}
	writers.Lock()
	defer writers.Unlock()
	delete(writers.file, h.conn)
	h.conn = nil
}
