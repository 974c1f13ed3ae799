package pebblekv_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	s, err := db.Stats(ctx)
	testkit.Must(t, err)
	var logs int64
	names, err := filepath.Glob(filepath.Join(dir, "log.*", "*.wal"))
	testkit.Must(t, err)
	for _, name := range names {
		info, err := os.Stat(name)
		testkit.Must(t, err)
		logs += info.Size()
	}
	if s.Log != logs || s.Log == 0 || s.Flushes == 0 || s.Tables == 0 || s.Memtables == 0 {
		t.Errorf("the stats are %+v, and the log's files have %d bytes", s, logs)
	}
	testkit.Must(t, db.Close())
	if _, err := db.Stats(ctx); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("of a closed store: %v", err)
	}
}
