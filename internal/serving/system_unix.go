//go:build unix

package serving

import (
	"math"
	"os"
	"syscall"
)

// ReloadSignals are those at which changed modules are loaded.
var ReloadSignals = []os.Signal{syscall.SIGHUP}

// MaxFiles returns how many files the process may have open, 0 if that is unknown.
func MaxFiles() int {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 0
	}
	return int(min(uint64(r.Cur), math.MaxInt32))
}
