package memkv_test

import (
	"context"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/kvtest"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func open(testing.TB) kv.Engine { return memkv.New() }

func TestConformance(t *testing.T) { kvtest.Run(t, open) }

func BenchmarkEngine(b *testing.B) { kvtest.Benchmark(b, open) }

func TestGetDoesNotAllocate(t *testing.T) {
	ctx := context.Background()
	db := memkv.New()
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte("k"), make([]byte, 4096))}}); err != nil {
		t.Fatal(err)
	}
	snap, err := db.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	key, dst := []byte("k"), make([]byte, 0, 4096)
	for name, r := range map[string]kv.Reader{"engine": db, "snapshot": snap} {
		got := testing.AllocsPerRun(100, func() {
			if v, err := r.Get(ctx, key, dst); err != nil || len(v) != 4096 {
				t.Fatalf("%d bytes, %v", len(v), err)
			}
		})
		if got != 0 {
			t.Errorf("%s: got %v allocations per Get, want 0", name, got)
		}
	}
}
