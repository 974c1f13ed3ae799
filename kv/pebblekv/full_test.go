package pebblekv

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/greenroomdb/greenroom/kv"
)

// smallOptions are those of a store on a small disk.
var smallOptions = Options{MemtableBytes: 1 << 20, MinFree: 16 << 20}

// tables returns how many tables a store has in level 0, and how many bytes all have.
func tables(db *DB) (level0, bytes int64) {
	m := db.store.db.Metrics()
	for _, l := range m.Levels {
		bytes += l.TablesSize
	}
	return m.Levels[0].TablesCount, bytes
}

// TestCompactionWithoutRoom: compactions leave alone what the disk has below a part of the mark, aren't tried again without a pause,
// let flushes go on, and don't keep a store from being opened, nor run before it is. With room they go on by themselves.
func TestCompactionWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSmallDisk()
		var made atomic.Int32
		d.set(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
				made.Add(1)
			}
			return nil
		})
		db, err := open("store", &smallOptions, d)
		noErr(t, "Open", err)
		noErr(t, "a commit", db.Commit(ctx, numbered(0))) // asks the disk
		d.setFree(4 << 20)
		for n := range 12 {
			noErr(t, "a commit", db.Commit(ctx, numbered(n)))
			noErr(t, "a flush", db.store.db.Flush())
		}
		synctest.Wait()
		level0, _ := tables(db)
		if level0 < 4 {
			t.Fatalf("level 0 has %d tables", level0)
		}
		made.Store(0)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := made.Load(); n < 3 || n > 20 {
			t.Errorf("in a minute a compaction without room was tried %d times", n)
		}
		noErr(t, "Close", db.Close())
		made.Store(0)
		db, err = open("store", &smallOptions, d)
		noErr(t, "Open without room", err)
		if n, _ := tables(db); n != level0 {
			t.Errorf("level 0 had %d tables, and has %d", level0, n)
		}
		synctest.Wait()
		if n := made.Load(); n > 1 {
			t.Errorf("%d tables were begun", n)
		}
		d.setFree(d.total)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n, _ := tables(db); n >= level0 {
			t.Errorf("with room again level 0 has %d tables", n)
		}
		noErr(t, "Close", db.Close())
	})
}

// without leaves an open store without room for a compaction of two tables that overlap.
func without(t *testing.T, d *meteredDisk, db *DB) {
	t.Helper()
	for range 3 { // Pebble compacts the first two
		for n := range 100 {
			noErr(t, "a commit", db.Commit(ctx, numbered(n)))
		}
		noErr(t, "a flush", db.store.db.Flush())
		synctest.Wait()
	}
	d.setFree(4 << 20)
}

// everything is a range.
var everything = kv.Range{Start: []byte("0"), End: []byte("z")}

// TestRoomEndsPause: with room again compactions go on at once, and don't wait for the end of a pause.
func TestRoomEndsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSmallDisk()
		db, err := open("store", &smallOptions, d)
		noErr(t, "Open", err)
		without(t, d, db)
		wantRefused(t, "HasRoom", db.HasRoom())
		compacted := make(chan error, 1)
		go func() { compacted <- db.store.db.Compact(ctx, everything.Start, everything.End, false) }()
		time.Sleep(21 * time.Second) // the pause is of 10 seconds by now
		synctest.Wait()
		d.setFree(d.total)
		begun := time.Now()
		noErr(t, "HasRoom", db.HasRoom())
		noErr(t, "compacting", <-compacted)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("compacting went on after %v", took)
		}
		noErr(t, "Close", db.Close())
	})
}

// TestCloseDuringReclaim: Close ends the compaction of a range that waits for room, and a pause that ends meanwhile begins none.
func TestCloseDuringReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSmallDisk()
		db, err := open("store", &smallOptions, d)
		noErr(t, "Open", err)
		without(t, d, db)
		db.store.reclaimer.add(everything)
		synctest.Wait()
		d.set(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
				time.Sleep(time.Minute) // which is longer than a pause
			}
			return nil
		})
		// A commit gets through, and isn't flushed at once.
		db.store.room.least = -1
		db.store.room.low.Store(false)
		c := numbered(1)
		c.Durability = kv.Applied
		noErr(t, "a commit", db.Commit(ctx, c))
		noErr(t, "Close", db.Close()) // which syncs the log
	})
}

// TestEraseWithoutRoom: rows are erased from a store with less room than is kept from compactions elsewhere, and without any it says so.
func TestEraseWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSmallDisk()
		db, err := open("store", nil, d)
		noErr(t, "Open", err)
		without(t, d, db)
		noErr(t, "Close", db.Close())
		within, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		half := []kv.Range{{Start: []byte("0"), End: numbered(50).Ops[0].Key}}
		var full atomic.Bool
		full.Store(true)
		var made atomic.Int32 // the first one has what Erase clears
		d.set(func(op errorfs.Op) error {
			if full.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") && made.Add(1) > 1 {
				return syscall.ENOSPC
			}
			return nil
		})
		wantRefused(t, "Erase of a full disk", erase(within, "store", half, d))
		full.Store(false)
		noErr(t, "Erase", erase(within, "store", half, d))
	})
}

// TestReclaim: while the disk has little room what is in a range that is cleared gives its room back, although no table lies within.
func TestReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSmallDisk()
		db, err := open("store", &smallOptions, d)
		noErr(t, "Open", err)
		noise := rand.NewChaCha8([32]byte{})
		key := func(n int) []byte { return binary.BigEndian.AppendUint32([]byte("k"), uint32(n)) }
		const rows = 1000
		for n := range rows {
			value := make([]byte, 4096)
			_, _ = noise.Read(value)
			noErr(t, "a commit", db.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(key(n), value)}}))
		}
		noErr(t, "a flush", db.store.flush(ctx, nil))
		noErr(t, "compacting", db.store.db.Compact(ctx, []byte("a"), []byte("z"), false))
		synctest.Wait()
		_, before := tables(db)
		d.setFree(16<<20 - 1)
		time.Sleep(askEvery)
		synctest.Wait()
		wantRefused(t, "at the mark", db.Commit(ctx, numbered(1)))
		// Half of each twenty rows: less than a table.
		for n := 0; n < rows; n += 20 {
			noErr(t, "a removal", db.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.ClearRange(key(n), key(n+10))}}))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, after := tables(db); after > before*6/10 {
			t.Errorf("of %d bytes %d are left", before, after)
		}
		noErr(t, "Close", db.Close())
	})
}
