package pebblekv_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// TestStats: the sizes are those of the files, and what is in memory comes into tables by a flush.
func TestStats(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	db, err := pebblekv.Open(dir, &pebblekv.Options{MemtableBytes: 1 << 20})
	testkit.Must(t, err)
	for i := range 40 {
		testkit.Must(t, db.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte{byte(i)}, []byte(strings.Repeat(string(rune('a'+i%26)), 100_000)))}}))
	}
	// Pebble flushes when it has the time, and the log's files go after that.
	for deadline := time.Now().Add(testkit.Patience(10 * time.Second)); ; <-time.After(time.Millisecond) {
		s, err := db.Stats(ctx)
		testkit.Must(t, err)
		logs := logBytes(t, dir)
		if s.Log == logs && s.Log > 0 && s.Flushes > 0 && s.Tables > 0 && s.Memtables > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the stats are %+v, and the log's files have %d bytes", s, logs)
		}
	}
	testkit.Must(t, db.Close())
	if _, err := db.Stats(ctx); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("of a closed store: %v", err)
	}
}

// logBytes returns how many bytes the files of a store's log have.
func logBytes(t *testing.T, dir string) (n int64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "log.*", "*.wal"))
	testkit.Must(t, err)
	for _, name := range names {
		info, err := os.Stat(name)
		if err == nil {
			n += info.Size()
		} else if !errors.Is(err, fs.ErrNotExist) { // it goes meanwhile
			t.Fatal(err)
		}
	}
	return n
}
