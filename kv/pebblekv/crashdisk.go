package pebblekv

import (
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A CrashDisk is a disk in memory that can crash at any moment: what was not synced
// by then is lost, or a part of it. It is for tests, of the packages above too, and
// is here because what it takes is Pebble's; a program has no use for it. All
// methods are safe for concurrent use.
type CrashDisk struct{ mem *vfs.MemFS }

// NewCrashDisk returns an empty disk.
func NewCrashDisk() *CrashDisk { return &CrashDisk{vfs.NewCrashableMem()} }

// Open opens the one store of the disk, as Open does, creating it when there is
// none.
func (d *CrashDisk) Open(opts *Options) (*DB, error) {
	return open("store", opts, d.mem)
}

// Crash returns a disk with what a crash of d at this moment may leave: everything
// that is synced, and each block and directory entry that isn't with a probability
// of unsynced percent, rolled with rnd. 0 keeps nothing of these, 100 everything. d
// itself doesn't change, and its store goes on beside.
func (d *CrashDisk) Crash(unsynced int, rnd *rand.Rand) *CrashDisk {
	return &CrashDisk{d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rnd})}
}
