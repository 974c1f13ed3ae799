package vfs

import (
	"sync/atomic"

	"github.com/greenroomdb/greenroom/vfs/internal/readahead"
)

// Stats counts what the connections to one database did since it was mounted.
type Stats struct {
	// AtomicCommits is the number of transactions that landed as one atomic
	// engine commit, with no journal.
	AtomicCommits int64
	// BufferedCommits is the number of transactions for which SQLite opened a
	// journal file that never had to be stored.
	BufferedCommits int64
	// JournalCommits is the number of transactions that ended by finalising a
	// stored rollback journal: commits, and rollbacks of what had spilled.
	JournalCommits int64
	// Fallbacks is the number of transactions that were too large for one
	// atomic commit and went to the journal instead.
	Fallbacks int64
	// Spills is the number of times a transaction was more than Options.TxMemory, so
	// that a part of it was stored, its journal first.
	Spills int64
	// LogCommits is the number of times that the end of a transaction was stored in the
	// log of WAL mode, and Checkpoints how often pages that SQLite copied from there
	// were stored in the main file.
	LogCommits, Checkpoints int64
	// Published is the number of committed states that readers were given.
	Published int64
	// Snapshots is the number of snapshots taken, which actors of a near engine may share,
	// and Expired how many of them were let go of while a transaction still read them,
	// because of Options.MaxSnapshotAge or Options.MaxSnapshots.
	Snapshots, Expired int64
	// PageReads is the number of chunks that SQLite's own cache missed and
	// memory could not answer: each one is a read of the actor, which is one of the
	// engine, on a near engine unless the Store's cache has the page, and on a far one if
	// it isn't among the CacheHits and didn't come with another one.
	PageReads int64
	// CacheHits is the number of chunks, those that the writer read included, that the
	// cache of the Store had, on a far engine: because they had been read or written
	// before, or because they were read ahead.
	CacheHits int64
	// On a far engine: Prefetches is the number of engine reads that brought several chunks at
	// once, Prefetched the number of extra chunks that they brought, PrefetchUsed how many of those
	// were asked for later, and PrefetchWasted how many the connection no longer expects to be
	// asked for.
	Prefetches, Prefetched, PrefetchUsed, PrefetchWasted int64
	// BusyWriter is the number of times a connection that wanted to write found
	// another one writing.
	BusyWriter int64
	// WriterWaits is the number of times a connection queued up to write, and
	// ReaderWaits how often one that reads waited for anything: only for the
	// rollback of a journal that was found when the database was mounted, and for a
	// connection that leaves WAL mode.
	WriterWaits, ReaderWaits int64
	// MostBehind is the largest number of other transactions that began to write
	// while one waited in the queue.
	MostBehind int64
	// BusySnapshot is the number of times a connection wanted to write after
	// reading a state that isn't the newest any more.
	BusySnapshot int64
	// Recoveries is the number of journals that were found left behind, that which
	// was rolled back on opening included.
	Recoveries int64
	// IdleClosed is the number of connections that were closed because they were idle for
	// Options.MaxIdleTime.
	IdleClosed int64
}

// counters is Stats while it is being counted.
type counters struct {
	atomicCommits, bufferedCommits, journalCommits, fallbacks, spills, published, snapshots, expired,
	logCommits, checkpoints, pageReads, writerWaits, readerWaits, mostBehind, busyWriter, busySnapshot, recoveries, idleClosed atomic.Int64
	ahead readahead.Counters
}

func (c *counters) read() Stats {
	return Stats{
		AtomicCommits:   c.atomicCommits.Load(),
		BufferedCommits: c.bufferedCommits.Load(),
		JournalCommits:  c.journalCommits.Load(),
		Fallbacks:       c.fallbacks.Load(),
		Spills:          c.spills.Load(),
		LogCommits:      c.logCommits.Load(),
		Checkpoints:     c.checkpoints.Load(),
		Published:       c.published.Load(),
		Snapshots:       c.snapshots.Load(),
		Expired:         c.expired.Load(),
		PageReads:       c.pageReads.Load(),
		CacheHits:       c.ahead.CacheHits.Load(),
		Prefetches:      c.ahead.Prefetches.Load(),
		Prefetched:      c.ahead.Prefetched.Load(),
		PrefetchUsed:    c.ahead.Used.Load(),
		PrefetchWasted:  c.ahead.Wasted.Load(),
		WriterWaits:     c.writerWaits.Load(),
		ReaderWaits:     c.readerWaits.Load(),
		MostBehind:      c.mostBehind.Load(),
		BusyWriter:      c.busyWriter.Load(),
		BusySnapshot:    c.busySnapshot.Load(),
		Recoveries:      c.recoveries.Load(),
		IdleClosed:      c.idleClosed.Load(),
	}
}
