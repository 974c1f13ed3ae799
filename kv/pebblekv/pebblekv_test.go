package pebblekv_test

import (
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/kvtest"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/kv/txn/txntest"
)

func open(t testing.TB) kv.Engine {
	db, err := pebblekv.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestConformance(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, open)
	txntest.Run(t, open)
}

// TestConformanceSmallMemtables has memtables so small that they are flushed and compacted all the
// time. That changes what reads, since it reads from tables, and commits that are larger than one.
func TestConformanceSmallMemtables(t *testing.T) {
	t.Parallel()
	open := func(t testing.TB) kv.Engine {
		db, err := pebblekv.Open(t.TempDir(), &pebblekv.Options{MemtableBytes: 16 << 10, CacheBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	parts := func(names ...string) []string {
		if testkit.Long() {
			return nil // all of them
		}
		return names
	}
	kvtest.Run(t, open, parts("BigValues", "ScanState", "ScanLoop", "ScanRanges", "ScanRangesEnds", "ClearMany", "Limits", "Snapshot",
		"Clears", "CheckedClears", "Atomicity", "Random")...)
	txntest.Run(t, open, parts("SnapshotReads")...)
}

func BenchmarkEngine(b *testing.B) {
	kvtest.Benchmark(b, open)
	txntest.Benchmark(b, open)
}
