package pebblekv

import (
	"cmp"
	"runtime"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"
)

// minTable is the least size of a table in bytes.
const minTable = 64 << 10

// pebbleOptions are Pebble's options for a store; the caller must Unref the
// cache. Every value that isn't Pebble's default says why.
//
// The figures are from one workload: 40,000 pages of 4 KiB, half of each
// incompressible, written in commits of 16, then overwritten twice in small
// clusters, then read at random with a cache of 64 MiB. They are processor time,
// the best of three interleaved runs, against Pebble's defaults with a memtable
// of 64 MiB in the same run; differences under 10 % were noise.
//
// Left alone after trying: L0CompactionThreshold 2 (writes 10 % more), larger
// tables and a larger first level (no difference), syncing the log in between
// (slower). Separating values into blob files made writing 40 % cheaper and
// scanning 30 %, but a read 20 % dearer and the store 15 % larger; Pebble v2.1.7
// has it among its experimental options, and the values of a database are no
// place for those.
func pebbleOptions(opts *Options, s *store) *pebble.Options {
	log := workaround.Logger{To: opts.Logger, Fault: s.fault}
	o := &pebble.Options{
		Cache:            pebble.NewCache(cmp.Or(opts.CacheBytes, defaultCache)),
		FS:               s.fence,
		Lock:             s.lock,
		ReadOnly:         opts.ReadOnly,
		Merger:           workaround.Patches(),
		ErrorIfNotExists: opts.MustExist || opts.ReadOnly,
		Logger:           log,
		EventListener:    workaround.Events(s.gate, s.compactor, log),
		// Stores are made by this version or older ones, never read by older ones.
		FormatMajorVersion: pebble.FormatNewest,
		// 4 MiB, the default, wrote 40 % more to the disk than 64 MiB. 32 MiB wrote
		// no more, and halves the memory and the length of the logs (of which
		// Pebble keeps as many as were ever needed at once), but commits were
		// 15 to 30 % dearer.
		MemTableSize: uint64(cmp.Or(opts.MemtableBytes, defaultMemtable)),
		// Both stops are out of reach: writers wait at the gate instead.
		MemTableStopWritesThreshold: 1 << 16,
		L0StopWritesThreshold:       1 << 16,
		// The default never compacts with more than one goroutine; with two
		// processors a second one made no difference, so one is left for others.
		// While the disk has little room there is one: each takes room until it has ended.
		CompactionConcurrencyRange: func() (int, int) {
			if s.room.low.Load() {
				return 1, 1
			}
			return 1, min(4, max(1, runtime.GOMAXPROCS(0)-1))
		},
	}
	if least := s.small; least > 0 {
		// What is free at the mark has room for any one compaction: of level 0, which the gate bounds to half of it, into the
		// first level, or of a table into the ten or so that it overlaps.
		o.LBaseMaxBytes = max(minTable, least/4)
		o.L0CompactionFileThreshold = workaround.Level0Tables
		for i := range o.TargetFileSizes {
			o.TargetFileSizes[i] = max(minTable, least/32)
		}
	}
	o.DisableAutomaticCompactions = opts.onDemand
	o.Experimental.CompactionScheduler = s.compactor
	for i := range o.Levels {
		l := &o.Levels[i]
		// Ten bits per key let one read in a hundred look into a table in vain.
		// Without, a read of a missing key was 45 % dearer.
		l.FilterPolicy = bloom.FilterPolicy(10)
		// Room for a page and its neighbour. The default of 4 KiB puts every page
		// in a block of its own: a scan was 35 % dearer, writing 18 %, and random
		// reads 10 to 20 % cheaper. With 16 KiB those were 40 % dearer.
		l.BlockSize = 8 << 10
		// Of what this processor has, the fastest that is better than Snappy, the
		// default: 12 % less written for no more time. None at all wrote 19 % more.
		l.Compression = func() *sstable.CompressionProfile { return sstable.FastestCompression }
	}
	// Pebble's reads never look at a filter of the last level (IterOptions.
	// UseL6Filters; a Get has no such option), so it needn't be made.
	o.Levels[len(o.Levels)-1].FilterPolicy = pebble.NoFilterPolicy
	return o
}
