package pebblekv_test

import (
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/kvtest"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
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
}

// Memtables this small are flushed and compacted all the time, so that the
// suite also reads from tables.
func TestConformanceSmallMemtables(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(t testing.TB) kv.Engine {
		db, err := pebblekv.Open(t.TempDir(), &pebblekv.Options{MemtableBytes: 16 << 10, CacheBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return db
	})
}

func BenchmarkEngine(b *testing.B) { kvtest.Benchmark(b, open) }
