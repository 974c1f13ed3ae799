package vfs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// Transactions of any size: what they cost the engine, and how much memory they take.

// A largeCost is what the engine was asked for by a transaction. Sub-batches are
// counted as an engine that takes one at a time would be asked for them.
type largeCost struct {
	commits, subs, journal, durable int
	held                            int // chunks in memory at most
}

// costOf runs the statement query.
func costOf(t *testing.T, r *fixture, db *vfs.DB, conn execer, query string) (c largeCost) {
	t.Helper()
	d, err := vfs.DatabaseOf(vfs.VFSOf(db), vfs.MountName)
	if err != nil {
		t.Fatal(err)
	}
	entries, journal := batch.DefaultLimits().Entries, fileMark(1)
	r.Engine.Hook(func(op faultkv.Op) error {
		if op.Point != faultkv.BeforeCommit {
			return nil
		}
		// It is the writer's goroutine that calls this.
		c.held = max(c.held, d.Pending())
		c.commits++
		if op.Commit.Durability == kv.Durable {
			c.durable++
		}
		writes, ofJournal := 0, false
		for _, o := range op.Commit.Ops {
			if o.Kind == kv.OpClearRange || strings.HasSuffix(string(o.Key), string(metadataEnd)) {
				writes++
			}
			ofJournal = ofJournal || journal(o.Key)
		}
		c.subs += (writes + entries - 1) / entries
		if ofJournal {
			c.journal++
		}
		return nil
	})
	exec(t, conn, query)
	r.Engine.Hook(nil)
	return c
}

// TestLargeTransactions holds what large transactions cost. The cache of a connection
// is SQLite's default of 2 MB, so nearly all of their pages spill.
func TestLargeTransactions(t *testing.T) {
	t.Parallel()
	type want struct{ whole, one largeCost } // at most, with many sub-batches in a commit, and with one
	const insert = "insert into t(b, c) select %s, value from generate_series(1, %d)"
	tests := []struct {
		name, setup, query string
		want
	}{
		{"insert 1 MiB", "", fmt.Sprintf(insert, "randomblob(1000)", 1<<20/1000), want{largeCost{1, 3, 0, 1, 0}, largeCost{4, 4, 0, 1, 0}}},
		{"insert 10 MiB", "", fmt.Sprintf(insert, "randomblob(1000)", 10<<20/1000), want{largeCost{1, 22, 0, 1, 0}, largeCost{24, 24, 0, 1, 0}}},
		{"insert 10 MiB in a few rows", "", fmt.Sprintf(insert, "randomblob(1048576)", 10), want{largeCost{1, 22, 0, 1, 0}, largeCost{24, 24, 0, 1, 0}}},
		{"update 10 MiB", fmt.Sprintf(insert, "zeroblob(1000)", 10<<20/1000), "update t set b = randomblob(1000)",
			want{largeCost{1, 22, 0, 1, 0}, largeCost{48, 48, 24, 1, 0}}},
		{"index of 100,000 rows", fmt.Sprintf(insert, "hex(randomblob(8))", 100_000), "create index i on t(b)", want{largeCost{1, 8, 0, 1, 0}, largeCost{9, 9, 0, 1, 0}}},
		{"vacuum of 10 MiB", fmt.Sprintf(insert, "randomblob(1000)", 20<<20/1000) + "; delete from t where a % 2", "vacuum",
			want{largeCost{2, 24, 0, 1, 0}, largeCost{80, 80, 50, 1, 0}}},
	}
	if testkit.Race {
		tests = tests[:1] // the others take minutes, and race no more
	}
	for _, tt := range tests {
		for _, atomic := range []int{envlimits.Unlimited, 1} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, atomic), func(t *testing.T) {
				limits := batch.DefaultLimits()
				limits.AtomicBatches = atomic
				r := newRig(t, limits)
				db := r.open(t, nil)
				conn := oneConn(t, db)
				exec(t, conn, "create table t(a integer primary key, b blob, c int)")
				if tt.setup != "" {
					exec(t, conn, tt.setup)
				}
				got, most := costOf(t, r, db, conn, tt.query), tt.whole
				if atomic == 1 {
					most = tt.one
				}
				t.Logf("%+v, %d pages", got, one[int](t, conn, "pragma page_count"))
				if got.commits > most.commits || got.subs > most.subs || got.journal > most.journal || got.durable != most.durable {
					t.Errorf("took %+v, want at most %+v", got, most)
				}
				intact(t, conn)
				holdsLittle(t, db)
			})
		}
	}
}

// holdsLittle fails the test if a database keeps the memory of a large transaction.
func holdsLittle(t *testing.T, db *vfs.DB) {
	t.Helper()
	d, err := vfs.DatabaseOf(vfs.VFSOf(db), vfs.MountName)
	if err != nil {
		t.Fatal(err)
	}
	if n := d.Pending(); n > 0 {
		t.Errorf("%d pages are in memory", n)
	}
	if n := d.Look().Kept; n > 4*chunked.MaxKept {
		t.Errorf("a batch of %d writes is kept", n)
	}
}

// TestMemoryBound: what a transaction takes beside SQLite's cache is bounded by
// TxMemory, with one that appends, one that overwrites, and their rollbacks.
func TestMemoryBound(t *testing.T) {
	rows, bound := testkit.Pick(4<<10, 64<<10, 64<<10), testkit.Pick[int64](vfs.LeastTxMemory, 4<<20, 4<<20)
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{TxMemory: bound, Pragmas: []string{"cache_size=100"}})
	conn := oneConn(t, db)
	exec(t, conn, "create table t(a integer primary key, b blob)")
	for _, q := range []string{
		fmt.Sprintf("insert into t(b) select zeroblob(1000) from generate_series(1, %d)", rows),
		"update t set b = zeroblob(1001)",
		"begin; update t set b = zeroblob(1002); rollback",
		fmt.Sprintf("begin; insert into t(b) select zeroblob(1000) from generate_series(1, %d); rollback", rows),
		"delete from t where a % 2",
		"vacuum",
	} {
		before := db.Stats().Spills
		got := costOf(t, r, db, conn, q)
		t.Logf("%s: %+v", q, got)
		if int64(got.held) > bound/chunked.Size+1 || db.Stats().Spills == before {
			t.Errorf("%s: %d chunks in memory, %d spills", q, got.held, db.Stats().Spills-before)
		}
	}
	if n := one[int](t, conn, "select sum(length(b)) from t"); n != rows/2*1001 {
		t.Errorf("%d bytes, want %d", n, rows/2*1001)
	}
	intact(t, conn)
	holdsLittle(t, db)
}

// TestImport writes 1 GiB in one transaction, if GREENROOM_LONG says so. The memory
// that it takes is recorded in docs/performance.md.
func TestImport(t *testing.T) {
	testkit.OnlyLong(t, "it writes a gigabyte")
	engine, err := pebblekv.Open(filepath.Join(t.TempDir(), "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	limits := batch.DefaultLimits()
	limits.Storage = 4 << 30
	r := newRigOn(t, engine, limits)
	db := r.open(t, nil)
	conn := oneConn(t, db)
	exec(t, conn, "create table t(a integer primary key, b blob)")
	debug.FreeOSMemory()
	before := resident(t)
	var peak uint64
	d, err := vfs.DatabaseOf(vfs.VFSOf(db), vfs.MountName)
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	r.Engine.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeCommit {
			held = max(held, d.Pending())
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
		}
		return nil
	})
	exec(t, conn, "insert into t(b) select randomblob(4000) from generate_series(1, 262144)")
	r.Engine.Hook(nil)
	t.Logf("%d pages; %+v", one[int](t, conn, "pragma page_count"), db.Stats())
	t.Logf("resident %d MiB before, at most %d MiB; Go heap at most %d MiB; %d chunks held", before>>20, resident(t)>>20, peak>>20, held)
	if held > vfs.DefaultTxMemory/chunked.Size+1 {
		t.Errorf("%d chunks in memory", held)
	}
	if n := one[int](t, conn, "select count(*) from t"); n != 262144 {
		t.Errorf("%d rows", n)
	}
	holdsLittle(t, db)
}

// resident returns the most memory that the process had so far, in bytes; 0 where
// the system doesn't say.
func resident(t *testing.T) uint64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	var kib uint64
	for line := range strings.Lines(string(status)) {
		if n, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 && err == nil {
			return kib << 10
		}
	}
	return 0
}
