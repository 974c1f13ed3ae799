package pebblekv

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

// TestClearRangeEncoding: a range with little in it is cleared key by key, and one
// with much, or with nothing to be known about it, by a range deletion.
func TestClearRangeEncoding(t *testing.T) {
	db, err := open("store", nil, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	fill := &kv.Commit{}
	for i := range maxPoints {
		fill.Ops = append(fill.Ops, kv.Set(fmt.Appendf(nil, "few/%d", i), nil), kv.Set(fmt.Appendf(nil, "many/%d", i), nil))
	}
	fill.Ops = append(fill.Ops, kv.Set([]byte("many/more"), nil))
	if err := db.Commit(ctx, fill); err != nil {
		t.Fatal(err)
	}
	set := func(k string) kv.Op { return kv.Set([]byte(k), nil) }
	del := func(a, b string) kv.Op { return kv.ClearRange([]byte(a), []byte(b)) }
	for _, tt := range []struct {
		name  string
		ops   []kv.Op
		count uint32 // of deletions
	}{
		{"nothing", []kv.Op{del("none/", "none0")}, 0},
		{"inverted", []kv.Op{del("many0", "many/")}, 0},
		{"few", []kv.Op{del("few/", "few0")}, maxPoints},
		{"many", []kv.Op{del("many/", "many0")}, 1},
		{"own", []kv.Op{set("x/1"), set("x/2"), set("y"), del("x/", "x0")}, 2},
	} {
		c := &kv.Commit{Ops: tt.ops}
		b := db.store.db.NewBatch()
		if err := db.commits.encode(b, c, 0, new(encoding)); err != nil {
			t.Fatal(err)
		}
		if got := b.Count() - uint32(len(tt.ops)-1); got != tt.count {
			t.Errorf("%s: got %d deletions, want %d", tt.name, got, tt.count)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestClearRangeRace: another commit puts a key into a range after the range is encoded and before
// it is cleared.
func TestClearRangeRace(t *testing.T) {
	db, err := open("store", nil, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	c := &kv.Commit{Ops: []kv.Op{kv.ClearRange([]byte("a"), []byte("b"))}, Durability: kv.Applied}
	size, err := measure(c)
	if err != nil {
		t.Fatal(err)
	}
	version, b, e := db.commits.version.Load(), db.store.db.NewBatch(), new(encoding)
	if err := db.commits.encode(b, c, size, e); err != nil {
		t.Fatal(err)
	}
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte("aa"), nil)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.commits.apply(c, b, size, version, e); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := db.Get(ctx, []byte("aa"), nil); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("a key set just before its range was cleared: got %v, want %v", err, kv.ErrNotFound)
	}
}

// TestBatchBuffers: a large commit finds the buffer of the last one, and a small one that
// gets it lets go of it.
func TestBatchBuffers(t *testing.T) {
	if testkit.Race {
		t.Skip("sync.Pool forgets at random under the race detector")
	}
	d, err := open("store", nil, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	const large = 3 * retainBytes
	// A collection empties the pool, and each processor has one.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	use := func(size int) (had int) {
		b := d.commits.newBatch(size)
		if err := b.Set([]byte("k"), make([]byte, size-100), nil); err != nil {
			t.Fatal(err)
		}
		had = cap(b.Repr())
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		return had
	}
	use(large)
	if had := use(large - retainBytes); had < large {
		t.Errorf("a large batch has a buffer of %d bytes, where there was one of %d", had, large)
	}
	use(200) // which gets it
	if had := use(300); had >= retainBytes {
		t.Errorf("small batches hand on a buffer of %d bytes", had)
	}
}
