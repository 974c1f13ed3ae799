//go:build !linux

package lease

import "github.com/greenroomdb/greenroom/actorstore/internal/layout"

// identify returns nothing: what it takes to tell a process that has ended from one
// that can't be seen is not known here.
func identify() (machine string, pid, started uint64) { return "", 0, 0 }

// Here reports whether the process of a host is known to run on this machine.
func Here(*layout.Host) bool { return false }

// hasEnded says whether the process of a host on this machine provably ended.
func hasEnded(*layout.Host) bool { return false }
