package pebblekv

import (
	"cmp"
	"iter"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroomdb/greenroom/metrics"
)

// Options say how to open a store. A nil *Options is the zero Options.
type Options struct {
	// CacheBytes is the size of the cache of uncompressed blocks; 0 means 256 MiB.
	CacheBytes int64
	// MemtableBytes is how much is written before it goes from memory into a
	// table; 0 means 64 MiB. Up to about four times as much can be in memory.
	// What is there is read back from the log when the store is opened after a
	// crash: no more than about 256 MiB, however large this is. A file of the log
	// becomes as large, 64 MiB at most, or as large as one commit.
	MemtableBytes int64
	// PatchBytes bounds the memory for recently written values. A commit that changes one of them
	// writes only the difference. 0 means 16 MiB; a negative value turns this off.
	PatchBytes int
	// MinFree is how many bytes of the disk stay free: while it has fewer, commits are refused with an error of the kind
	// greenroom.ErrNoSpace, and reads go on. Commits go on by themselves when there is room, within a quarter of a second.
	// What is in no table yet counts as used beyond a quarter of these bytes, and a quarter is out of the reach of compactions.
	// Below 64 MiB, on a disk of at most 64 times as many bytes, tables and levels are smaller, too, so that compactions fit.
	// Commits that only remove may use half of these bytes. 0 means as many as MemtableBytes, so that what is in
	// memory has room in a table; a negative value turns this off. Where the system doesn't say what is free nothing is refused.
	MinFree int64
	// MustExist makes Open fail with kv.ErrNoStore instead of creating a store.
	MustExist bool
	// ReadOnly opens an existing store without changing anything in it (but it
	// takes the store's lock: a store can't be read while it is open elsewhere).
	// Where the lock can't be written, for the mode of the file or a file system that is
	// read-only, a lock for reading is taken: several readers can have it, and a writer on
	// the same machine is ErrStoreInUse. Other machines don't see it: don't read a
	// directory of a network's that another machine writes to.
	// What is in the log alone is held in memory then.
	// It implies MustExist; commits are refused, with an error of the kind greenroom.ErrReadOnly.
	ReadOnly bool
	// WithoutLogRest, if it isn't nil, opens a store for reading whose log is damaged or lost, too, with every commit up to the
	// first one that can't be read: a state that the store had. Before Open returns, it gets the error that Open would return
	// else, which names the file. It isn't called if the log is whole. Only ReadOnly takes it.
	WithoutLogRest func(cause error)
	// Logger receives what Pebble reports: errors at level Error, everything
	// else at level Debug. Nil means that nothing is logged.
	Logger *slog.Logger
	// Metrics receives what Metrics() lists. If it is nil, nothing is reported.
	Metrics metrics.Sink

	maxLog   int64                    // in place of the constant, for tests
	records  iter.Seq2[Record, error] // in place of the log of a store that is only read
	onDemand bool                     // nothing is compacted but by DB.Compact of Pebble
}

// What Options leaves at zero.
const (
	defaultCache    = 256 << 20
	defaultMemtable = 64 << 20
	defaultPatch    = 16 << 20
)

// leastFree returns what of the disk stays free, negative for nothing.
func leastFree(o *Options) int64 {
	if o.ReadOnly {
		return -1
	}
	return cmp.Or(o.MinFree, o.MemtableBytes, defaultMemtable)
}

// smallDisk is how many times what stays free a disk has at most for a store to be a small one.
const smallDisk = 64

// smallStore returns what of the disk stays free if that is less than Pebble's own figures are made for and the disk is small, else 0.
func smallStore(o *Options, disk vfs.FS, dir string) int64 {
	least := leastFree(o)
	if least < 0 || least >= defaultMemtable {
		return 0
	}
	if u, err := disk.GetDiskUsage(dir); err != nil || u.TotalBytes > smallDisk*uint64(least) {
		return 0
	}
	return least
}
