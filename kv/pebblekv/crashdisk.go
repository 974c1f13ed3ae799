package pebblekv

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// A CrashDisk is a disk in memory that can crash at any moment: what was not synced
// by then is lost, or a part of it. It can be full, too. It is for tests, of the packages above too, and
// is here because what it takes is Pebble's; a program has no use for it. All
// methods are safe for concurrent use.
type CrashDisk struct {
	mem  *vfs.MemFS
	full atomic.Bool
	// writes is called before each change.
	writes atomic.Pointer[func()]
}

// NewCrashDisk returns an empty disk.
func NewCrashDisk() *CrashDisk { return &CrashDisk{mem: vfs.NewCrashableMem()} }

// Open opens the only store of the disk, as the function Open does, and creates it if it doesn't
// exist.
func (d *CrashDisk) Open(opts *Options) (*DB, error) {
	return open("store", opts, errorfs.Wrap(d.mem, errorfs.InjectorFunc(d.refuse)))
}

// SetFull says whether the disk is full: it refuses then what takes room.
func (d *CrashDisk) SetFull(full bool) { d.full.Store(full) }

// SetFree says how many bytes the disk says it has free; before, it doesn't say that. It refuses nothing for that.
func (d *CrashDisk) SetFree(bytes int64) {
	d.mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: uint64(bytes), TotalBytes: math.MaxInt64})
}

// OnWrite sets a function that is called before each operation that changes the disk, or makes a change durable, by the goroutine that does it; nil ends that. fn may call
// Crash, and must do nothing with the disk's store.
func (d *CrashDisk) OnWrite(fn func()) {
	if fn == nil {
		d.writes.Store(nil)
		return
	}
	d.writes.Store(&fn)
}

func (d *CrashDisk) refuse(op errorfs.Op) error {
	if fn := d.writes.Load(); fn != nil && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		(*fn)()
	}
	if !d.full.Load() {
		return nil
	}
	switch op.Kind {
	case errorfs.OpCreate, errorfs.OpFileWrite:
		return syscall.ENOSPC
	case errorfs.OpFileWriteAt:
		if info, err := d.mem.Stat(op.Path); err != nil || op.Offset >= info.Size() {
			return syscall.ENOSPC
		}
	}
	return nil
}

// Crash returns a disk with what a crash of d at this moment may leave: everything
// that is synced, and each block and directory entry that isn't with a probability
// of unsynced percent, rolled with rnd. 0 keeps nothing of these, 100 everything. d
// itself doesn't change, and its store goes on beside.
func (d *CrashDisk) Crash(unsynced int, rnd *rand.Rand) *CrashDisk {
	return &CrashDisk{mem: d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rnd})}
}
