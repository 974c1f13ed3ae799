package vfs_test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/vfs"
)

// connectionMemory is how much resident memory an open connection may take that has
// written a row, in bytes, without what all share: the engine with its caches.
const connectionMemory = 3 << 19

// idleMemory is how much a database may take whose connection was closed since it is idle.
const idleMemory = 64 << 10

// memoryChild makes this test binary the process that is measured.
const memoryChild = "GREENROOM_MEMORY_CHILD"

// TestMemoryPerConnection opens 100 connections in a process of its own, writes a row
// on each, and compares the resident memory with that of the process before.
func TestMemoryPerConnection(t *testing.T) {
	if kind := os.Getenv(memoryChild); kind != "" {
		fmt.Printf("per connection: %d\n", measureConnections(t, kind))
		return
	}
	if testkit.Race {
		t.Skip("the race detector takes memory of its own")
	}
	for kind, bounds := range map[string][2]int64{"actors": {64 << 10, connectionMemory}, "connections": {64 << 10, connectionMemory}, "idle": {1, idleMemory}} {
		t.Run(kind, func(t *testing.T) {
			child := osexec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryPerConnection$")
			child.Env = append(os.Environ(), memoryChild+"="+kind)
			out, err := child.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var n int64
			_, line, _ := strings.Cut(string(out), "per connection: ")
			if _, err := fmt.Sscan(line, &n); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("100 %s: %d KiB of resident memory for each", kind, n>>10)
			if n < bounds[0] || n > bounds[1] {
				t.Errorf("each takes %d bytes, want at most %d", n, bounds[1])
			}
		})
	}
}

// measureConnections returns the mean growth of the process for each of 100 open
// connections: one to each of 100 actors, or all to one; or for each of 100 databases that have none.
func measureConnections(t *testing.T, kind string) int64 {
	engine, err := pebblekv.Open(t.TempDir(), &pebblekv.Options{CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	store, err := actorstore.Open(t.Context(), engine, nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 100
	var open func(i int)
	switch kind {
	case "actors":
		open = func(i int) {
			db := openNumbered(t, store, i, &vfs.Options{MaxConns: 1, MaxIdleTime: -1})
			writeRow(t, db)
		}
	case "idle":
		open = func(i int) {
			db := openNumbered(t, store, i, &vfs.Options{MaxIdleTime: time.Millisecond})
			writeRow(t, db)
			for end := time.Now().Add(testkit.Patience(time.Second)); connections(t, db) > 0 && time.Now().Before(end); {
				runtime.Gosched()
			}
		}
	default:
		db := openNumbered(t, store, 0, &vfs.Options{MaxConns: n + 1})
		open = func(int) {
			conn, err := db.Conn(t.Context()) // stays in use, so the next one is another
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			})
			writeRow(t, conn)
		}
	}
	open(0) // what is needed once
	before := settledMemory(t)
	for i := range n {
		open(i + 1)
	}
	return (settledMemory(t) - before) / n
}

// openNumbered opens the database of an actor, for as long as the test runs.
func openNumbered(t *testing.T, store *actorstore.Store, i int, opts *vfs.Options) *vfs.DB {
	t.Helper()
	actor, err := store.Named(t.Context(), "room "+strconv.Itoa(i), nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := vfs.Open(t.Context(), actor, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if err := actor.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// writeRow writes one row.
func writeRow(t *testing.T, db execer) {
	t.Helper()
	exec(t, db, "create table if not exists message(id integer primary key, text)")
	exec(t, db, "insert into message(text) values ('hello')")
}

// settledMemory returns the resident memory of this process in bytes.
//
// https://man7.org/linux/man-pages/man5/proc_pid_statm.5.html
func settledMemory(t *testing.T) int64 {
	t.Helper()
	// Garbage is not what a connection takes.
	runtime.GC()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
