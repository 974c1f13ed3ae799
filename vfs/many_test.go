package vfs_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestManyActors opens, writes and closes actors one after the other, and looks what
// is left of them in the process.
func TestManyActors(t *testing.T) {
	// After the first few the engine remembers as many rows and pages as it ever does.
	few, many := testkit.Pick(200, 300, 4500), testkit.Pick(1000, 1000, 13_500)
	engine, err := pebblekv.Open(t.TempDir(), &pebblekv.Options{CacheBytes: 1 << 20, MemtableBytes: 1 << 20, PatchBytes: 512 << 10})
	if err != nil {
		t.Fatal(err)
	}
	store, err := actorstore.Open(t.Context(), engine, nil)
	if err != nil {
		t.Fatal(err)
	}
	goroutines := runtime.NumGoroutine()
	for i := range few {
		visit(t, store, i)
	}
	heap := liveHeap()
	for i := range many - few {
		visit(t, store, few+i)
	}
	// The engine's own goroutines come and go, and its memory does, with its tables.
	if n := lastingGoroutines(goroutines + 10); n > goroutines+10 {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines after %d actors, %d before\n%s", n, many, goroutines, stacks[:runtime.Stack(stacks, true)])
	}
	now := lastingHeap(heap + 2<<20)
	t.Logf("%d KiB of heap after %d actors, %d KiB after %d", now>>10, many, heap>>10, few)
	if now > heap+2<<20 {
		t.Errorf("%d bytes of heap after %d actors, %d after %d", now, many, heap, few)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	// It refuses while a snapshot or an iterator is open.
	if err := engine.Close(); err != nil {
		t.Error(err)
	}
}

// visit opens an actor's database, writes a row, and closes everything.
func visit(t *testing.T, store *actorstore.Store, i int) {
	t.Helper()
	actor, err := store.Named(t.Context(), "room "+strconv.Itoa(i), nil)
	if err != nil {
		t.Fatal(err)
	}
	// The fsync is what takes time, and leaves nothing.
	db, err := vfs.Open(t.Context(), actor, &vfs.Options{Pragmas: []string{"synchronous=NORMAL"}})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, "create table message(id integer primary key, text)")
	exec(t, db, "insert into message(text) values ('hello')")
	if n := one[int](t, db, "select count(*) from message"); n != 1 {
		t.Fatalf("%d rows", n)
	}
	name := vfs.RegisteredAs(db)
	if sqlitevfs.Find(name) == nil {
		t.Fatalf("SQLite doesn't know %q", name)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if sqlitevfs.Find(name) != nil {
		t.Fatalf("SQLite still knows %q", name)
	}
	if n := vfs.BeginsWrites(actor); n != 0 {
		t.Fatalf("%d connections are still known as writers", n)
	}
	if err := actor.Close(); err != nil {
		t.Fatal(err)
	}
}

// lastingGoroutines counts the goroutines once there are no more than most, or those that
// are about to end have had long enough: database/sql's end some time after their pool was
// closed, which is when a busy machine lets them.
func lastingGoroutines(most int) int {
	n := runtime.NumGoroutine()
	for end := time.Now().Add(testkit.Patience(time.Second)); n > most && time.Now().Before(end); {
		runtime.Gosched()
		n = min(n, runtime.NumGoroutine())
	}
	return n
}

// lastingHeap is liveHeap once it is not over most, or what works in the background has
// had long enough: Pebble keeps what it is about to write, and needs memory for that.
func lastingHeap(most uint64) uint64 {
	n := liveHeap()
	for end := time.Now().Add(testkit.Patience(time.Second)); n > most && time.Now().Before(end); {
		runtime.Gosched()
		n = min(n, liveHeap())
	}
	return n
}

// liveHeap returns how many bytes of the heap are in use. What only finalizers and
// pools hold is gone after the second collection.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
