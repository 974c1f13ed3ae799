package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// A tempFile is a temporary file of SQLite: a sorter's run, a temporary table, a
// statement journal. It lives in memory until it exceeds its bound, and in a
// file of the operating system from then on; never in an actor's keys.
type tempFile struct {
	noLocks
	dir   string    // for the OS file; "" is the system's
	bound int64     // bytes kept in memory
	space *tempRoom // what all files of the VFS may take
	size  int64     // counted in space
	mem   []byte
	file  *os.File // not nil once the bound was exceeded
}

// A tempRoom bounds the temporary files of a VFS, in memory and in files, together.
type tempRoom struct {
	most    int64 // bytes; negative: no bound
	used    atomic.Int64
	refused atomic.Int64 // how often there was no room
}

// take counts n more bytes, or returns ErrTempFull.
func (r *tempRoom) take(n int64) error {
	if used := r.used.Add(n); r.most >= 0 && used > r.most {
		r.used.Add(-n)
		r.refused.Add(1)
		return fmt.Errorf("%w: %d bytes wanted, limit %d", ErrTempFull, used, r.most)
	}
	return nil
}

var _ sqlitevfs.File = (*tempFile)(nil)

// Close removes the file.
func (f *tempFile) Close() error {
	f.space.used.Add(-f.size)
	f.mem, f.size = nil, 0
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
	more := max(0, end-f.size)
	if more > 0 {
		if err := f.space.take(more); err != nil {
			return 0, sqliteError(err, sqlite3.IOERR_WRITE)
		}
	}
	n, err := f.write(b, off, end)
	if err != nil {
		f.space.used.Add(-more)
		return n, sqliteError(err, sqlite3.IOERR_WRITE)
	}
	f.size += more
	return n, nil
}

// write writes b from off to end, for which there is room.
func (f *tempFile) write(b []byte, off, end int64) (int, error) {
	if f.file == nil && end > f.bound {
		if err := f.spill(); err != nil {
			return 0, err
		}
	}
	if f.file != nil {
		return f.file.WriteAt(b, off)
	}
	if have := len(f.mem); end > int64(have) {
		f.mem = slices.Grow(f.mem, int(end)-have)[:end]
		clear(f.mem[have:]) // of a longer file that was cut
	}
	return copy(f.mem[off:], b), nil
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

// Truncate makes the file shorter. It never becomes longer so.
func (f *tempFile) Truncate(size int64) error {
	if size >= f.size {
		return nil
	}
	if f.file != nil {
		if err := f.file.Truncate(size); err != nil {
			return sqliteError(err, sqlite3.IOERR_TRUNCATE)
		}
	} else {
		f.mem = f.mem[:size]
	}
	f.space.used.Add(size - f.size)
	f.size = size
	return nil
}

// Sync does nothing: a temporary file need not survive.
func (f *tempFile) Sync(sqlitevfs.SyncFlag) error { return nil }

func (f *tempFile) Size() (int64, error) { return f.size, nil }
