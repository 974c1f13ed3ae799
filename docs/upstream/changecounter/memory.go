package main

import (
	"io"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// memory is a VFS of files in memory, for connections that take turns.
type memory struct {
	files map[string]*file
	plain bool
}

func (m *memory) Open(name string, flags sqlitevfs.OpenFlag) (sqlitevfs.File, sqlitevfs.OpenFlag, error) {
	f := m.files[name]
	if f == nil || name == "" {
		f = &file{}
		m.files[name] = f
	}
	return &handle{file: f, plain: m.plain}, flags, nil
}

func (m *memory) Delete(name string, _ bool) error {
	if m.files[name] == nil {
		return sqlite3.IOERR_DELETE_NOENT
	}
	delete(m.files, name)
	return nil
}

func (m *memory) Access(name string, _ sqlitevfs.AccessFlag) (bool, error) {
	return m.files[name] != nil, nil
}

func (m *memory) FullPathname(name string) (string, error) { return name, nil }

// file is the bytes of a file.
type file struct{ data []byte }

// handle is a file that a connection has open.
type handle struct {
	*file
	plain  bool
	before []byte // what an atomic write that fails goes back to
}

func (h *handle) ReadAt(b []byte, off int64) (int, error) {
	if off >= int64(len(h.data)) {
		return 0, io.EOF
	}
	n := copy(b, h.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (h *handle) WriteAt(b []byte, off int64) (int, error) {
	if grow := int(off) + len(b) - len(h.data); grow > 0 {
		h.data = append(h.data, make([]byte, grow)...)
	}
	return copy(h.data[off:], b), nil
}

func (h *handle) Truncate(size int64) error { h.data = h.data[:size]; return nil }

func (h *handle) DeviceCharacteristics() sqlitevfs.DeviceCharacteristic {
	if h.plain {
		return sqlitevfs.IOCAP_POWERSAFE_OVERWRITE
	}
	return sqlitevfs.IOCAP_POWERSAFE_OVERWRITE | sqlitevfs.IOCAP_BATCH_ATOMIC
}

// In memory every write is atomic as long as nothing fails in between.

func (h *handle) BeginAtomicWrite() error {
	h.before = append([]byte(nil), h.data...)
	return nil
}

func (h *handle) CommitAtomicWrite() error { return nil }

func (h *handle) RollbackAtomicWrite() error { h.data = h.before; return nil }

func (h *handle) Close() error                     { return nil }
func (h *handle) Sync(sqlitevfs.SyncFlag) error    { return nil }
func (h *handle) Size() (int64, error)             { return int64(len(h.data)), nil }
func (h *handle) Lock(sqlitevfs.LockLevel) error   { return nil }
func (h *handle) Unlock(sqlitevfs.LockLevel) error { return nil }
func (h *handle) CheckReservedLock() (bool, error) { return false, nil }
func (h *handle) SectorSize() int                  { return 4096 }

var _ sqlitevfs.FileBatchAtomicWrite = (*handle)(nil)
