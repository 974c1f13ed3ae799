package greenroom_test

import (
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestUpdateCost: a transaction of one row asks as much of the engine as the same through
// package vfs, and allocates at most a tenth more.
func TestUpdateCost(t *testing.T) {
	r := newRig(t, batch.Limits{})
	door, err := r.store.Actor(ctx, "door", nil)
	must(t, err)
	lower, err := r.store.Lower().Named(ctx, "lower", nil)
	must(t, err)
	db, err := vfs.Open(ctx, lower, nil)
	must(t, err)
	const insert = "insert into t(b) values (?)"
	value := make([]byte, 100)
	ways := []struct {
		name   string
		insert func() error
		counts faultkv.Counts
		allocs float64
	}{
		{name: "vfs", insert: func() error {
			return db.Update(ctx, func(tx *vfs.Tx) error {
				_, err := tx.ExecContext(ctx, insert, value)
				return err
			})
		}},
		{name: "greenroom", insert: func() error {
			return door.Update(ctx, func(tx *greenroom.Tx) error {
				_, err := tx.Exec(insert, value)
				return err
			})
		}},
	}
	const table = "create table t(a integer primary key, b)"
	_, err = db.ExecContext(ctx, table)
	must(t, err)
	_, err = door.SQL().ExecContext(ctx, table)
	must(t, err)
	for i := range ways {
		w := &ways[i]
		for range 50 { // whatever is kept for later is there
			must(t, w.insert())
		}
		r.engine.Reset()
		for range 100 {
			must(t, w.insert())
		}
		w.counts = r.engine.Counts()
		w.allocs = testkit.FewestAllocs(func() { must(t, w.insert()) })
	}
	below, own := ways[0], ways[1]
	own.counts.Bytes, below.counts.Bytes = 0, 0 // of times and names
	if own.counts != below.counts || own.counts.Commits != 100 || own.counts.Durable != 100 {
		t.Errorf("100 transactions take %+v, and below %+v", own.counts, below.counts)
	}
	if own.allocs > 1.1*below.allocs && !testkit.Race {
		t.Errorf("a transaction allocates %v times, and below %v times", own.allocs, below.allocs)
	}
	t.Logf("%v allocations, and below %v", own.allocs, below.allocs)
	must(t, door.Close())
	must(t, db.Close())
	must(t, lower.Close())
}
