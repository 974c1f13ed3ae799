package pebblekv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/greenroomdb/greenroom/kv"
)

// logFile returns the contents of the only log of the store.
func logFile(t *testing.T, fs vfs.FS) []byte {
	t.Helper()
	names, err := fs.List("store")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		f, err := fs.Open(fs.PathJoin("store", name))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		return data
	}
	t.Fatal("no log")
	return nil
}

// TestLogGrowsSeldom: the log grows once for many durable commits, and not at all for
// those that nobody waits for.
func TestLogGrowsSeldom(t *testing.T) {
	mem := vfs.NewMem()
	d := newDisk(mem)
	db, err := open("store", nil, d)
	if err != nil {
		t.Fatal(err)
	}
	ahead := 0
	d.set(func(op errorfs.Op) error {
		if isLog(op) && op.Kind == errorfs.OpFileWriteAt {
			ahead++
		}
		return nil
	})
	page := bytes.Repeat([]byte{7}, 4096)
	// Forty pages, a bit more than logAhead, and the first memtable has room for them.
	put := func(durability kv.Durability) {
		for i := range 40 {
			c := &kv.Commit{Ops: []kv.Op{kv.Set(fmt.Appendf(nil, "%d", i), page)}, Durability: durability}
			if err := db.Commit(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(kv.Durable)
	if n := len(logFile(t, mem)); ahead != 2 || n != 2*logAhead {
		t.Errorf("40 durable commits: zeros were written %d times, want 2, and the log has %d bytes, want %d", ahead, n, 2*logAhead)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = open("store", nil, d); err != nil {
		t.Fatal(err)
	}
	ahead = 0
	put(kv.Applied)
	if ahead != 0 {
		t.Errorf("zeros were written %d times beside commits that nobody waits for", ahead)
	}
	if err := db.Sync(ctx, db.Incarnation()); err != nil {
		t.Fatal(err)
	}
	if ahead != 1 {
		t.Errorf("zeros were written %d times by a sync, want 1", ahead)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestZerosRefused: a disk without room for zeros that has room for records is no
// reason to fail.
func TestZerosRefused(t *testing.T) {
	d := newDisk(vfs.NewMem())
	db, err := open("store", nil, d)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	d.set(func(op errorfs.Op) error {
		if isLog(op) && op.Kind == errorfs.OpFileWriteAt {
			refused++
			return errBroken
		}
		return nil
	})
	for n := range 40 {
		if err := db.Commit(ctx, record(n)); err != nil {
			t.Fatal(err)
		}
	}
	if refused != 1 {
		t.Errorf("zeros were tried %d times, want once", refused)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = open("store", nil, d); err != nil {
		t.Fatal(err)
	}
	for n := range 40 {
		if _, err := db.Get(ctx, record(n).Ops[0].Key, nil); err != nil {
			t.Errorf("record %d: %v", n, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
