package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// A tempFile is a temporary file of SQLite: a sorter's run, a temporary table, a
// statement journal. It lives in memory until it exceeds its bound, and in a
// file of the operating system from then on; never in an actor's keys.
type tempFile struct {
	noLocks
	dir   string // for the OS file; "" is the system's
	bound int64  // bytes kept in memory
	mem   []byte
	file  *os.File // not nil once the bound was exceeded
}

var _ sqlitevfs.File = (*tempFile)(nil)

// Close removes the file.
func (f *tempFile) Close() error {
	f.mem = nil
	if f.file == nil {
		return nil
	}
	name := f.file.Name()
	err := errors.Join(f.file.Close(), removeIfThere(name))
	f.file = nil
	return sqliteError(err, sqlite3.IOERR_CLOSE)
}

func removeIfThere(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (f *tempFile) ReadAt(b []byte, off int64) (int, error) {
	if f.file != nil {
		n, err := f.file.ReadAt(b, off)
		if err != nil && err != io.EOF {
			err = sqliteError(err, sqlite3.IOERR_READ)
		}
		return n, err
	}
	if off >= int64(len(f.mem)) {
		return 0, io.EOF
	}
	n := copy(b, f.mem[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *tempFile) WriteAt(b []byte, off int64) (int, error) {
	end := off + int64(len(b))
	if f.file == nil && end > f.bound {
		if err := f.spill(); err != nil {
			return 0, sqliteError(err, sqlite3.IOERR_WRITE)
		}
	}
	if f.file != nil {
		n, err := f.file.WriteAt(b, off)
		return n, sqliteError(err, sqlite3.IOERR_WRITE)
	}
	if end > int64(len(f.mem)) {
		f.resize(end)
	}
	return copy(f.mem[off:], b), nil
}

// resize sets the length of mem; new bytes are zero.
func (f *tempFile) resize(size int64) {
	have := int64(len(f.mem))
	if size <= have {
		f.mem = f.mem[:size]
		return
	}
	if size > int64(cap(f.mem)) {
		next := make([]byte, size, min(max(size, 2*int64(cap(f.mem)), chunkSize), max(f.bound, size)))
		copy(next, f.mem)
		f.mem = next
		return
	}
	f.mem = f.mem[:size]
	clear(f.mem[have:])
}

// spill moves the content to a file, which has no name any more where the
// operating system allows that.
func (f *tempFile) spill() error {
	file, err := os.CreateTemp(f.dir, "greenroom-*.tmp")
	if err != nil {
		return fmt.Errorf("vfs: temporary file: %w", err)
	}
	_ = os.Remove(file.Name()) // where it is refused, Close does it
	if _, err := file.WriteAt(f.mem, 0); err != nil {
		return errors.Join(fmt.Errorf("vfs: temporary file: %w", err), file.Close(), removeIfThere(file.Name()))
	}
	f.file, f.mem = file, nil
	return nil
}

func (f *tempFile) Truncate(size int64) error {
	if f.file != nil {
		return sqliteError(f.file.Truncate(size), sqlite3.IOERR_TRUNCATE)
	}
	if size <= int64(len(f.mem)) {
		f.resize(size)
	}
	return nil
}

// Sync does nothing: a temporary file need not survive.
func (f *tempFile) Sync(sqlitevfs.SyncFlag) error { return nil }

func (f *tempFile) Size() (int64, error) {
	if f.file == nil {
		return int64(len(f.mem)), nil
	}
	info, err := f.file.Stat()
	if err != nil {
		return 0, sqliteError(err, sqlite3.IOERR_FSTAT)
	}
	return info.Size(), nil
}
