package vfs

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// TestManyActors opens, writes and closes actors one after the other, and looks what
// is left of them in the process.
func TestManyActors(t *testing.T) {
	// After the first few the engine remembers as many actors' rows as it ever does.
	few, many := 4500, 13_500
	if testing.Short() || raceDetector {
		few, many = 200, 1000
	}
	engine, err := pebblekv.Open(t.TempDir(), &pebblekv.Options{CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	store, err := actorstore.Open(t.Context(), engine, nil)
	if err != nil {
		t.Fatal(err)
	}
	goroutines, known := runtime.NumGoroutine(), knownWriters() // tests that crash leave some
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
	now := liveHeap()
	t.Logf("%d KiB of heap after %d actors, %d KiB after %d", now>>10, many, heap>>10, few)
	if now > heap+2<<20 {
		t.Errorf("%d bytes of heap after %d actors, %d after %d", now, many, heap, few)
	}
	if left := knownWriters() - known; left != 0 {
		t.Errorf("%d connections are still known as writers", left)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	// It refuses while a snapshot or an iterator is open.
	if err := engine.Close(); err != nil {
		t.Error(err)
	}
}

// knownWriters returns how many connections of the process may write a database.
func knownWriters() int {
	writers.Lock()
	defer writers.Unlock()
	return len(writers.file)
}

// visit opens an actor's database, writes a row, and closes everything.
func visit(t *testing.T, store *actorstore.Store, i int) {
	t.Helper()
	actor, err := store.Named(t.Context(), "room "+strconv.Itoa(i), nil)
	if err != nil {
		t.Fatal(err)
	}
	// The fsync is what takes time, and leaves nothing.
	db, err := Open(t.Context(), actor, &Options{Pragmas: []string{"synchronous=NORMAL"}})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, "create table message(id integer primary key, text)")
	exec(t, db, "insert into message(text) values ('hello')")
	if n := one[int](t, db, "select count(*) from message"); n != 1 {
		t.Fatalf("%d rows", n)
	}
	name := db.vfs.registered
	if sqlitevfs.Find(name) == nil {
		t.Fatalf("SQLite doesn't know %q", name)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if sqlitevfs.Find(name) != nil {
		t.Fatalf("SQLite still knows %q", name)
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
	for end := time.Now().Add(10 * time.Second); n > most && time.Now().Before(end); {
		runtime.Gosched()
		n = min(n, runtime.NumGoroutine())
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
