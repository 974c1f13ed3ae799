package memkv_test

import (
	"context"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/kvtest"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn/txntest"
)

func open(testing.TB) kv.Engine { return memkv.New() }

func TestConformance(t *testing.T) {
	kvtest.Run(t, open)
	txntest.Run(t, open)
}

func BenchmarkEngine(b *testing.B) {
	kvtest.Benchmark(b, open)
	txntest.Benchmark(b, open)
}

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

// TestClone: neither store sees what is written to the other, and both go on.
func TestClone(t *testing.T) {
	ctx := t.Context()
	put := func(db kv.Engine, key string) {
		t.Helper()
		if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte(key), []byte("x"))}}); err != nil {
			t.Fatal(err)
		}
	}
	keys := func(db kv.Engine) (s string) {
		t.Helper()
		for e, err := range db.Scan(ctx, kv.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			s += string(e.Key)
		}
		return s
	}
	db := memkv.New()
	put(db, "a")
	put(db, "b")
	clone, err := memkv.Clone(db)
	if err != nil {
		t.Fatal(err)
	}
	put(db, "c")
	put(clone, "d")
	if a, b := keys(db), keys(clone); a != "abc" || b != "abd" {
		t.Errorf("%s and %s, want abc and abd", a, b)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := memkv.Clone(db); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("clone of a closed store: %v", err)
	}
	if got := keys(clone); got != "abd" {
		t.Errorf("%s once the other is closed, want abd", got)
	}
	if _, err := memkv.Clone(faultkv.New(clone)); !errors.Is(err, kv.ErrUnsupported) {
		t.Errorf("clone of another engine: %v", err)
	}
	if err := clone.Close(); err != nil {
		t.Error(err)
	}
}
