//go:build linux && !(sqlite3_flock || sqlite3_dotlk)

package vfs

import (
	"os"
	"syscall"
)

// SQLite's locks in WAL mode are those of bytes of the index's file, of the kind that
// belongs to an open file and not to a process. go-sqlite3 takes them, and doesn't let
// anybody see which; but the system tells whether a byte is locked, and from which file
// it isn't.
//
// https://sqlite.org/walformat.html#wal_locks
// https://man7.org/linux/man-pages/man2/F_OFD_GETLK.2const.html

// canSeeLocks says whether this platform tells who holds SQLite's locks.
const canSeeLocks = true

// The commands of fcntl, which package syscall doesn't name.
const (
	ofdGetLock = 36
	ofdSetLock = 37
)

// An indexFile is the index's file, once more open, or a second descriptor of one that
// go-sqlite3 has open.
type indexFile struct{ fd int }

// openIndex opens the index's file, which it creates.
func openIndex(path string) (*indexFile, error) {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CREAT|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &indexFile{fd}, nil
}

// sameIndex returns a second descriptor of the file by which shm has the index open, so
// that its number stays this file's; nil if it isn't open.
func sameIndex(shm any) *indexFile {
	if p, ok := shm.(patient); ok {
		shm = p.SharedMemory
	}
	f, ok := shm.(interface{ Fd() uintptr }) // an *os.File is embedded in it
	if !ok {
		return nil
	}
	fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return nil
	}
	return &indexFile{int(fd)}
}

func (f *indexFile) close() {
	if f != nil {
		_ = syscall.Close(f.fd) // nothing was written through it
	}
}

// locked says whether somebody else than f holds a lock on SQLite's lock i.
func (f *indexFile) locked(i int64) bool {
	if f == nil {
		return false
	}
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: indexLocks + i, Len: 1}
	err := syscall.FcntlFlock(uintptr(f.fd), ofdGetLock, &lock)
	return err == nil && lock.Type != syscall.F_UNLCK
}

// unlock gives up n of f's locks, from number i on.
func (f *indexFile) unlock(i, n int64) {
	if f == nil {
		return
	}
	lock := syscall.Flock_t{Type: syscall.F_UNLCK, Start: indexLocks + i, Len: n}
	_ = syscall.FcntlFlock(uintptr(f.fd), ofdSetLock, &lock) // fails for want of memory only; the lock stays then
}
