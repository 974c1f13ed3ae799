//go:build unix

package storeurl

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// holder returns which process has the lock of the store in dir, which is why opening it failed. It closes the file of the lock, with which a
// process gives up its own locks, so it must not be called by one that has any: then the lock is held by this process, and inUse says so.
//
// https://man7.org/linux/man-pages/man2/F_GETLK.2const.html
func holder(dir string, inUse error) (pid int, program string) {
	if !errors.Is(inUse, syscall.EAGAIN) && !errors.Is(inUse, syscall.EACCES) {
		return os.Getpid(), filepath.Base(os.Args[0])
	}
	f, err := os.Open(filepath.Join(dir, "LOCK"))
	if err != nil {
		return 0, "" // what there is to say is that it is in use
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock) != nil || lock.Type == syscall.F_UNLCK {
		return 0, ""
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", lock.Pid))
	if err != nil {
		name = nil // not every system has it
	}
	return int(lock.Pid), strings.TrimSpace(string(name))
}
