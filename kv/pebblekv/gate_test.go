package pebblekv

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

// TestFailingFlush: tables that can't be written don't poison the store. Commits
// go on while there is memory, then fail with the cause and nothing applied, and
// go on again when the disk works again.
func TestFailingFlush(t *testing.T) {
	d := newDisk(vfs.NewMem())
	db, err := open("store", tiny, d)
	if err != nil {
		t.Fatal(err)
	}
	d.set(func(op errorfs.Op) error {
		if workaround.IsTable(op.Path) && writes(op) {
			return errBroken
		}
		return nil
	})
	n := 0
	within(t, "committing while flushes fail", func() {
		err := error(nil)
		for ; err == nil; n++ {
			err = db.Commit(ctx, numbered(n))
		}
		n--
		if !errors.Is(err, errBroken) || errors.Is(err, kv.ErrPoisoned) {
			t.Errorf("got %v, want %v and no poisoning", err, errBroken)
		}
		if _, err := db.Get(ctx, numbered(n).Ops[0].Key, nil); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("the refused commit: Get returned %v, want %v", err, kv.ErrNotFound)
		}
		c := numbered(n)
		c.ID = kv.CommitID{1}
		if err := db.Commit(ctx, c); !errors.Is(err, errBroken) {
			t.Errorf("got %v, want %v", err, errBroken)
		}
		if o, err := db.Outcome(ctx, c.ID); o != kv.OutcomeNotApplied || err != nil {
			t.Errorf("outcome of the refused commit: got %v, %v", o, err)
		}
		d.set(func(errorfs.Op) error { return nil })
		for err = errBroken; err != nil; err = db.Commit(ctx, numbered(n)) {
			if !errors.Is(err, errBroken) {
				t.Fatalf("while the disk recovers: %v", err)
			}
		}
		for end := n + 100; n < end; n++ {
			if err := db.Commit(ctx, numbered(n)); err != nil {
				t.Fatal(err)
			}
		}
	})
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	wantPrefix(t, d.mem, n)
}

// waiting reports whether a commit would wait at the gate.
func waiting(db *DB) bool {
	done, cancel := context.WithCancel(ctx)
	cancel()
	return db.store.gate.Wait(done) != nil
}

// fillUp commits until the gate is closed, and returns the number of the next
// record.
func fillUp(t *testing.T, db *DB) int {
	c, cancel := context.WithCancel(ctx)
	next := make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			if err := db.Commit(c, numbered(n)); err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				break
			}
		}
		next <- n
	}()
	for !waiting(db) {
		runtime.Gosched()
	}
	cancel()
	return <-next
}

// TestGate: a commit that waits for a slow flush can be cancelled, and goes on
// when the flush is done; Close doesn't wait for it to get through.
func TestGate(t *testing.T) {
	d := newDisk(vfs.NewMem())
	db, err := open("store", tiny, d)
	if err != nil {
		t.Fatal(err)
	}
	stuck := make(chan struct{})
	d.set(func(op errorfs.Op) error {
		if workaround.IsTable(op.Path) && op.Kind == errorfs.OpCreate {
			<-stuck
		}
		return nil
	})
	within(t, "a commit at the gate", func() {
		n := fillUp(t, db)
		// Only what ends its wait can end this commit.
		c, cancel := context.WithCancel(ctx)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			never := numbered(n)
			never.OnApply = func() { t.Error("a cancelled commit was applied") }
			if err := db.Commit(c, never); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled at the gate: got %v", err)
			}
		})
		cancel()
		waiting.Wait()

		waiting.Go(func() {
			if err := db.Commit(ctx, numbered(n)); err != nil {
				t.Errorf("waiting for the flush: %v", err)
			}
		})
		close(stuck)
		waiting.Wait()
	})
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseAtGate: Close sends waiting commits away.
func TestCloseAtGate(t *testing.T) {
	d := newDisk(vfs.NewMem())
	db, err := open("store", tiny, d)
	if err != nil {
		t.Fatal(err)
	}
	stuck := make(chan struct{})
	d.set(func(op errorfs.Op) error {
		if workaround.IsTable(op.Path) && op.Kind == errorfs.OpCreate {
			<-stuck
		}
		return nil
	})
	within(t, "Close with commits at the gate", func() {
		n := fillUp(t, db)
		var waiting sync.WaitGroup
		for range 4 {
			waiting.Go(func() {
				if err := db.Commit(ctx, numbered(n)); !errors.Is(err, kv.ErrClosed) {
					t.Errorf("got %v, want %v", err, kv.ErrClosed)
				}
			})
		}
		closed := make(chan error)
		go func() { closed <- db.Close() }()
		waiting.Wait()
		close(stuck) // Pebble's own Close waits for the flush
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// TestBigBatch: a commit many times the size of a memtable, and one right after
// it.
func TestBigBatch(t *testing.T) {
	if testkit.Short() {
		t.Skip("writes 300 MiB")
	}
	db, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const values, size = 300, 1 << 20
	c := &kv.Commit{}
	for i := range values {
		v := make([]byte, size)
		v[0], v[size-1] = byte(i), byte(i>>8)
		c.Ops = append(c.Ops, kv.Set([]byte{'k', byte(i >> 8), byte(i)}, v))
	}
	for _, c := range []*kv.Commit{c, numbered(0)} {
		if err := db.Commit(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	i := 0
	for e, err := range db.Scan(ctx, kv.Range{Start: []byte("k")}) {
		if err != nil || len(e.Value) != size || e.Value[0] != byte(i) || e.Value[size-1] != byte(i>>8) {
			t.Fatalf("value %d: %d bytes, %v", i, len(e.Value), err)
		}
		i++
	}
	if i != values {
		t.Errorf("got %d values, want %d", i, values)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
