package pebblekv

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

// TestCloseInScan closes a store from the body of a loop over it: Close doesn't
// wait for the loop, the loop ends with ErrClosed, and then the store is free.
func TestCloseInScan(t *testing.T) {
	mem := vfs.NewMem()
	db, err := open("store", nil, mem)
	if err != nil {
		t.Fatal(err)
	}
	const records = 10 * ctxEvery
	for n := range records {
		if err := db.Commit(ctx, numbered(n)); err != nil {
			t.Fatal(err)
		}
	}
	within(t, "a scan whose store closes", func() {
		n, last := 0, error(nil)
		for _, err := range db.Scan(ctx, kv.Range{}) {
			if last = err; err != nil {
				break
			}
			if n++; n == 1 {
				if err := db.Close(); err == nil {
					t.Error("Close did not mention the open scan")
				}
				if _, err := open("store", nil, mem); !errors.Is(err, kv.ErrStoreInUse) {
					t.Errorf("opening beside the scan: got %v, want %v", err, kv.ErrStoreInUse)
				}
			}
		}
		if !errors.Is(last, kv.ErrClosed) || n == records {
			t.Errorf("the scan ended after %d entries with %v, want %v", n, last, kv.ErrClosed)
		}
	})
	wantPrefix(t, mem, records)
}

// TestCloseBeforeSnapshot closes a store under an open snapshot.
func TestCloseBeforeSnapshot(t *testing.T) {
	mem := vfs.NewMem()
	db, err := open("store", nil, mem)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := db.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err == nil {
		t.Error("Close did not mention the open snapshot")
	}
	if _, err := snap.Get(ctx, []byte("k"), nil); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("Get of its snapshot: got %v, want %v", err, kv.ErrClosed)
	}
	for range 2 {
		if err := snap.Close(); err != nil {
			t.Errorf("closing the snapshot: %v", err)
		}
	}
	wantPrefix(t, mem, 0)
}

// TestOnApplyWhileClosing: a call in OnApply is told that the store closes
// instead of waiting for the Close that waits for its commit.
func TestOnApplyWhileClosing(t *testing.T) {
	db, err := open("store", nil, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	c := numbered(0)
	c.OnApply = func() {
		go func() { closed <- db.Close() }()
		for !db.store.life.Closed() {
			runtime.Gosched()
		}
		if _, err := db.Get(ctx, []byte("k"), nil); !errors.Is(err, kv.ErrClosed) {
			t.Errorf("Get while closing: got %v, want %v", err, kv.ErrClosed)
		}
	}
	within(t, "Close beside a commit", func() {
		if err := db.Commit(ctx, c); err != nil {
			t.Errorf("Commit: %v", err)
		}
		if err := <-closed; err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// allocs returns how many objects a call of f allocates. It takes the lowest of several averages,
// because the count includes every goroutine, and those of Pebble allocate now and then: the check
// of the levels of a newly opened store alone allocates a few hundred objects.
func allocs(runs int, f func()) float64 {
	fewest := testing.AllocsPerRun(runs, f)
	for range 4 {
		fewest = min(fewest, testing.AllocsPerRun(runs, f))
	}
	return fewest
}

// TestAllocations: the calls that matter allocate nothing.
func TestAllocations(t *testing.T) {
	db, err := open("store", nil, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx := context.Background()
	commit := numbered(1)
	commit.ID = kv.CommitID{1}
	commit.Checks = []kv.Check{{Key: []byte("absent"), Absent: true}, {Key: numbered(0).Ops[0].Key, Value: numbered(0).Ops[0].Value}}
	if err := db.Commit(ctx, numbered(0)); err != nil {
		t.Fatal(err)
	}
	key, missing, dst := numbered(0).Ops[0].Key, []byte("missing"), make([]byte, 0, 4096)
	for name, call := range map[string]func() error{
		"Get": func() error { _, err := db.Get(ctx, key, dst); return err },
		"Get of a missing key": func() error {
			if _, err := db.Get(ctx, missing, dst); err != kv.ErrNotFound {
				return errors.New("found")
			}
			return nil
		},
		"Commit": func() error { return db.Commit(ctx, commit) },
		"Commit Applied": func() error {
			commit.Durability = kv.Applied
			return db.Commit(ctx, commit)
		},
	} {
		if got := allocs(200, func() {
			if err := call(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}); got >= 1 && !testkit.Race {
			t.Errorf("%s: got %v allocations, want 0", name, got)
		}
	}
}

// TestSnapshotAllocations: reads of a snapshot allocate nothing, also of keys that
// are in tables, where Pebble's own Get does.
func TestSnapshotAllocations(t *testing.T) {
	db, err := open("store", nil, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	const n = 200
	for i := range n {
		if err := db.Commit(ctx, numbered(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.store.db.Flush(); err != nil {
		t.Fatal(err)
	}
	snap, err := db.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var keys [][]byte
	for i := range n {
		keys = append(keys, numbered(i).Ops[0].Key)
	}
	dst := make([]byte, 0, 8192)
	read := func() {
		for _, key := range keys {
			if _, err := snap.Get(ctx, key, dst); err != nil {
				t.Fatal(err)
			}
		}
	}
	read()
	if got := allocs(20, read); got >= n/20 && !testkit.Race {
		t.Errorf("reading %d keys allocates %v times", n, got)
	}
	if err := errors.Join(snap.Close(), db.Close()); err != nil {
		t.Error(err)
	}
}
