//go:build unix

package main

import "syscall"

// cpuTime returns the seconds of processor time that this process has used, its own and the
// system's for it.
func cpuTime() float64 {
	var u syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
