package lease

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
)

// identify returns what a later process on this machine can find out about this one: the
// boot of the kernel together with the namespace in which process numbers mean
// something, and the number with the time that tells it from others which had the
// number. It is nothing where the system doesn't say all of it.
//
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
func identify() (machine string, pid, started uint64) {
	machine, err := machineOf()
	if err != nil {
		return "", 0, 0
	}
	pid = uint64(os.Getpid())
	if started, err = startOf(pid); err != nil {
		return "", 0, 0
	}
	return machine, pid, started
}

// machineOf identifies a boot and a namespace of processes.
func machineOf() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(boot)) + " " + space, nil
}

// startOf returns when a process began, in ticks since the boot.
func startOf(pid uint64) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name of the program, in parentheses, may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const starttime = 22 - 3 // the fields are counted from 1, and two are before
	if len(fields) <= starttime {
		return 0, fmt.Errorf("%d fields", len(fields))
	}
	return strconv.ParseUint(string(fields[starttime]), 10, 64)
}

// Here reports whether the process of a host is known to run on this machine, in this namespace of processes.
func Here(row *layout.Host) bool {
	machine, err := machineOf()
	return err == nil && row.Machine == machine
}

// hasEnded says whether the process of a host on this machine provably ended.
func hasEnded(row *layout.Host) bool {
	machine, err := machineOf()
	if err != nil || row.Machine != machine || row.PID == 0 || row.PID > 1<<31-1 {
		return false
	}
	// Unlike a look into /proc, a signal is not misled by processes that are hidden.
	if err := syscall.Kill(int(row.PID), 0); err != nil {
		return errors.Is(err, syscall.ESRCH)
	}
	started, err := startOf(row.PID)
	return err == nil && started != row.Started
}
