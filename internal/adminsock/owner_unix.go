//go:build unix

package adminsock

import (
	"os"
	"syscall"
)

// owner returns the user whose a directory is, -1 if that is unknown.
func owner(dir string) int {
	info, err := os.Stat(dir)
	if err != nil {
		return -1
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}
