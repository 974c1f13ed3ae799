//go:build unix

package main

import (
	"math"
	"os"
	"syscall"
)

// reloadSignals are those at which changed modules are loaded.
var reloadSignals = []os.Signal{syscall.SIGHUP}

// maxFiles returns how many files the process may have open, 0 if that is unknown.
func maxFiles() int {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 0
	}
	return int(min(uint64(r.Cur), math.MaxInt32))
}
