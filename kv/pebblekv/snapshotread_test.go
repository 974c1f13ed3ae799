package pebblekv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/greenroomdb/greenroom/kv"
)

// TestSnapshotReadFails: a read that the disk fails is an error, not a missing key or an
// empty value, and the next read is as good as ever.
func TestSnapshotReadFails(t *testing.T) {
	key := func(n int) []byte { return []byte{'p', byte(n)} }
	old := bytes.Repeat([]byte{1}, 4000)
	for _, cold := range []bool{false, true} { // then the key isn't found either
		t.Run(fmt.Sprint("cold ", cold), func(t *testing.T) {
			dk := newDisk(vfs.NewMem())
			opts := &Options{CacheBytes: 64 << 20}
			if cold {
				opts.CacheBytes = 1
			}
			db, err := open("store", opts, dk)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			snap := oldVersions(t, db, key, old)
			defer snap.Close()
			if !cold { // all but the old values, which lie in blocks of their own
				it, err := snap.(*snapshot).snap.NewIter(nil)
				if err != nil {
					t.Fatal(err)
				}
				defer it.Close()
				for ok := it.First(); ok; ok = it.Next() {
				}
			}
			var broken, failed atomic.Bool
			fail := func(op errorfs.Op) error {
				if broken.Load() && op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
					failed.Store(true)
					return syscall.EIO
				}
				return nil
			}
			dk.fail.Store(&fail)
			for n := 11; n < 200; n += 20 { // each in another block
				broken.Store(n == 71)
				got, err := snap.Get(t.Context(), key(n), nil)
				switch {
				case broken.Load() && (!errors.Is(err, syscall.EIO) || !failed.Load()):
					t.Errorf("key %d: got %.8x, %v", n, got, err)
				case !broken.Load() && (err != nil || !bytes.Equal(got, old)):
					t.Errorf("key %d: got %.8x, %v", n, got, err)
				}
			}
		})
	}
}

// oldVersions returns a snapshot of values that only it needs, in a table.
func oldVersions(t *testing.T, db *DB, key func(int) []byte, value []byte) kv.Snapshot {
	t.Helper()
	set := func(v []byte) {
		for n := range 200 {
			if err := db.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.Set(key(n), v)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	set(value)
	snap, err := db.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set(make([]byte, len(value)))
	if err := db.store.db.Flush(); err != nil {
		t.Fatal(err)
	}
	return snap
}

// TestSnapshotShared reads one snapshot from many goroutines.
func TestSnapshotShared(t *testing.T) {
	db, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	key := func(n int) []byte { return fmt.Appendf(nil, "key %03d", n) }
	var c kv.Commit
	for n := range 100 {
		c.Ops = append(c.Ops, kv.Set(key(n), key(n)))
	}
	if err := db.Commit(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	snap, err := db.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				k := key((i*7 + g*13) % 100)
				if got, err := snap.Get(context.Background(), k, nil); err != nil || !bytes.Equal(got, k) {
					t.Errorf("%s is %s, %v", k, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
