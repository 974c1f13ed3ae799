package vfs

// A connection may write one of the databases that it has open. A transaction
// over two actors would be two commits, and SQLite's own answer to that, a
// super-journal, has no place among an actor's keys. The others are read-only.

// SetDB is told which connection a file belongs to, once, right after it was
// opened (SQLITE_FCNTL_PDB).
//
// https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlpdb
func (h *handle) SetDB(conn any) {
	if h.readOnly || conn == nil || h.conn != nil {
		return
	}
	h.vfs.mu.Lock()
	defer h.vfs.mu.Unlock()
	if h.vfs.writers[conn] != nil {
		h.readOnly = true
		return
	}
	h.conn = conn
	h.vfs.writers[conn] = h
}

// leave lets h's connection write another file.
func (v *VFS) leave(h *handle) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if h.conn != nil && v.writers[h.conn] == h {
		delete(v.writers, h.conn)
	}
	h.conn = nil
}
