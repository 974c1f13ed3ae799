package pglocal

import "syscall"

// memoryRoom is how many bytes a folder in memory must have free: a few servers, each with its
// log.
const memoryRoom = 6 << 30

// Memory returns a folder in memory for servers that needn't outlive the machine, or "", the
// system's temporary one, if there is none with room. initdb writes a thousand files: on disk
// that takes a second of the processor, in memory a tenth.
func Memory() string {
	const dir = "/dev/shm"
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil || s.Bavail*uint64(s.Bsize) < memoryRoom {
		return ""
	}
	return dir
}
