package pebblekv

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/greenroomdb/greenroom/kv"
)

// TestGroupCommit: many durable commits share few fsyncs, and a commit that is being applied
// doesn't wait for another's fsync. In every round the disk finishes its first sync of the log only
// after all commits of the round are applied, so this would hang if the commit lock were held
// during a sync.
func TestGroupCommit(t *testing.T) {
	const workers, rounds = 32, 20
	d := newDisk(vfs.NewMem())
	db, err := open("store", nil, d)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Commit(ctx, numbered(0)); err != nil { // the log's first file
		t.Fatal(err)
	}
	var syncs atomic.Int64
	var applied atomic.Pointer[sync.WaitGroup]
	d.set(func(op errorfs.Op) error {
		if isLog(op) && isSync(op) {
			syncs.Add(1)
			applied.Load().Wait()
		}
		return nil
	})
	within(t, "a commit beside a sync", func() {
		for round := range rounds {
			var here, done sync.WaitGroup
			here.Add(workers)
			applied.Store(&here)
			for w := range workers {
				done.Go(func() {
					err := db.Commit(ctx, &kv.Commit{
						Checks:  []kv.Check{{Key: fmt.Appendf(nil, "%d/%d", round, w), Absent: true}},
						Ops:     []kv.Op{kv.Set(fmt.Appendf(nil, "%d/%d", round, w), []byte("v"))},
						OnApply: here.Done,
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			done.Wait()
		}
	})
	// The first commit of a round may be synced alone, the others together; one
	// more comes when a commit falls between the two.
	if got := syncs.Load(); got < rounds || got > 3*rounds {
		t.Errorf("%d durable commits took %d syncs of the log, want %d to %d", workers*rounds, got, rounds, 3*rounds)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestSyncs counts syncs of the log: one for a durable commit, none for an
// applied one, and one for Sync or a durable commit of nothing if there are applied
// ones before it, which it has to make durable.
func TestSyncs(t *testing.T) {
	d := newDisk(vfs.NewMem())
	db, err := open("store", nil, d)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Commit(ctx, numbered(0)); err != nil { // the log's first file
		t.Fatal(err)
	}
	var syncs atomic.Int64
	d.set(func(op errorfs.Op) error {
		if isLog(op) && isSync(op) {
			syncs.Add(1)
		}
		return nil
	})
	ops := []kv.Op{kv.Set([]byte("k"), []byte("v"))}
	for _, step := range []struct {
		name string
		do   func() error
		want int64
	}{
		{"applied", func() error { return db.Commit(ctx, &kv.Commit{Ops: ops, Durability: kv.Applied}) }, 0},
		{"durable", func() error { return db.Commit(ctx, &kv.Commit{Ops: ops}) }, 1},
		{"durable, empty, with nothing before it", func() error { return db.Commit(ctx, &kv.Commit{}) }, 0},
		{"applied again", func() error { return db.Commit(ctx, &kv.Commit{Ops: ops, Durability: kv.Applied}) }, 0},
		{"durable, empty", func() error { return db.Commit(ctx, &kv.Commit{}) }, 1},
		{"applied a third time", func() error { return db.Commit(ctx, &kv.Commit{Ops: ops, Durability: kv.Applied}) }, 0},
		{"durable, only an inverted range", func() error {
			return db.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.ClearRange([]byte("b"), []byte("a"))}})
		}, 1},
		{"applied, empty", func() error { return db.Commit(ctx, &kv.Commit{Durability: kv.Applied}) }, 0},
		{"Sync of nothing", func() error { return db.Sync(ctx, db.Incarnation()) }, 0},
		{"applied at last", func() error { return db.Commit(ctx, &kv.Commit{Ops: ops, Durability: kv.Applied}) }, 0},
		{"Sync", func() error { return db.Sync(ctx, db.Incarnation()) }, 1},
	} {
		syncs.Store(0)
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := syncs.Load(); got != step.want {
			t.Errorf("%s: got %d syncs, want %d", step.name, got, step.want)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
