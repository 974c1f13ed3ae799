//go:build unix

package workaround

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
)

// setOpenFileLock is F_OFD_SETLK of Linux: a lock that belongs to the open file, so that it
// lasts until that is closed, whatever else the process opens and closes. It excludes the
// locks that writers take.
//
// https://man7.org/linux/man-pages/man2/F_OFD_SETLK.2const.html
const setOpenFileLock = 37

// shareLock takes a lock for reading of a file that may not be writable.
func shareLock(name string) (io.Closer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	cmd := syscall.F_SETLK
	if runtime.GOOS == "linux" {
		cmd = setOpenFileLock
	}
	err = syscall.FcntlFlock(f.Fd(), cmd, &syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
