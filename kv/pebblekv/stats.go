package pebblekv

import (
	"context"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/wal"
)

// Stats is what a store takes of its disk, and what Pebble does in the background, at one moment. Sizes are bytes.
type Stats struct {
	Tables    int64 // of all tables, those that are about to be removed included
	Log       int64 // of the files of the log, of which a backup may keep many
	Memtables int64 // of what isn't in tables yet, in memory

	Compactions int64 // that have ended since the store was opened
	Compacting  int64 // under way
	Debt        int64 // about so much is to be compacted still
	Flushes     int64 // of memtables to tables that have ended since the store was opened
}

// Stats returns what the store takes now. It lists the store's folder. Errors are those of doing so, and kv.ErrClosed.
func (d *DB) Stats(ctx context.Context) (Stats, error) {
	if err := d.store.begin(ctx); err != nil {
		return Stats{}, err
	}
	defer d.store.life.Leave()
	m := d.store.db.Metrics()
	s := Stats{
		Tables: int64(m.DiskSpaceUsage()), Memtables: int64(m.MemTable.Size), Compactions: m.Compact.Count, Compacting: m.Compact.NumInProgress,
		Debt: int64(m.Compact.EstimatedDebt), Flushes: m.Flush.Count,
	}
	var err error
	s.Log, err = wal.Size(d.store.fence.FS, d.store.fence.FS.PathJoin(d.store.dir, logDir))
	return s, err
}
