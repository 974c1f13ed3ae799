package memdir

import "syscall"

// least is how many bytes the folder must have free: a few servers of PostgreSQL, each with its
// log.
const least = 6 << 30

// noExec says of a file system that no program can be run from it (ST_NOEXEC of statvfs(3)).
const noExec = 8

// Find returns a folder in memory from which programs can be run. It returns "", which means the
// system's temporary folder, if that is missing or has too little room.
func Find() string {
	const dir = "/dev/shm"
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil || s.Flags&noExec != 0 || s.Bavail*uint64(s.Bsize) < least {
		return ""
	}
	return dir
}
