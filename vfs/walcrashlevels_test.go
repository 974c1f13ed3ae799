package vfs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestWALCrashLevels: connections to one database in WAL mode that have different levels
// of synchronous write at once, and the disk is crashed under them. Whatever was
// acknowledged at FULL is there, and with it everything that was committed before it at
// any level: what is lost is the end.
func TestWALCrashLevels(t *testing.T) {
	t.Parallel()
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("go test ./vfs -run TestWALCrashLevels -crashseed %d", seed)
	want, rounds := testkit.Pick(10, 24, 80), testkit.Pick(10, 40, 40) // clones of the disk
	clones, full, lost := 0, int64(0), int64(0)
	for round := uint64(0); clones < want && !t.Failed(); round++ {
		l := &levels{rnd: rand.New(rand.NewPCG(seed, round)), disk: pebblekv.NewCrashDisk(), rounds: rounds}
		for _, c := range l.run(t) {
			lost += c.check(t)
			full += c.full
			clones++
		}
	}
	t.Logf("%d clones: of %d transactions that were acknowledged at FULL none is lost, of others %d", clones, full, lost)
	if lost == 0 && clones >= 80 {
		t.Error("nothing was lost below FULL: the crashes lose nothing")
	}
}

// levels is a database that is written at several levels.
type levels struct {
	rnd    *rand.Rand
	disk   *pebblekv.CrashDisk
	dsn    string
	rounds int             // least number of transactions of each connection
	acked  [4]atomic.Int64 // the last transaction that was acknowledged, by connection
	full   atomic.Int64    // how many at FULL
	all    atomic.Int64
	over   atomic.Int64 // writers that have ended
}

// levelOf is the level of each connection.
var levelOf = [4]string{"FULL", "NORMAL", "OFF", "FULL"}

// A levelClone is what a crash left.
type levelClone struct {
	disk  *pebblekv.CrashDisk
	acked [4]int64 // what was acknowledged before it began
	full  int64
	all   int64
	where string
}

// run writes on every connection, and crashes the disk meanwhile.
func (l *levels) run(t *testing.T) (clones []levelClone) {
	t.Helper()
	db, err := l.disk.Open(smallPebble)
	if err != nil {
		t.Fatal(err)
	}
	r := openRig(t, db, batch.Limits{Entries: 16})
	checkpoint := []int{1, 5, 40, 1000}[l.rnd.IntN(4)]
	pool, err := vfs.Open(t.Context(), r.Actor, &vfs.Options{Pragmas: []string{
		"journal_mode=wal", "synchronous=FULL", "wal_autocheckpoint=" + strconv.Itoa(checkpoint)}})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "create table t(a integer primary key autoincrement, conn, n, pad)")
	sqlitevfs.Register("late", lateVFS{vfs.Files{VFS: vfs.VFSOf(pool)}})
	defer sqlitevfs.Unregister("late")
	l.dsn = "file:/" + vfs.MountName + "?vfs=late"
	rounds := l.rounds + l.rnd.IntN(2*l.rounds)
	var writers sync.WaitGroup
	for i, level := range levelOf {
		c, err := sqlite3.Open(l.dsn)
		if err != nil {
			t.Fatal(err)
		}
		do(t, c, fmt.Sprintf("PRAGMA busy_timeout=60000; PRAGMA synchronous=%s; PRAGMA wal_autocheckpoint=%d; PRAGMA cache_size=5", level, checkpoint))
		rnd := rand.New(rand.NewPCG(l.rnd.Uint64(), uint64(i)))
		writers.Go(func() {
			l.write(t, c, i, rounds, rnd)
			l.over.Add(1)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Go(func() { l.checkpoint(t) })
	for l.over.Load() == 0 && len(clones) < 12 {
		for until := l.all.Load() + int64(l.rnd.IntN(40)); l.all.Load() < until && l.over.Load() == 0; {
			runtime.Gosched()
		}
		c := levelClone{full: l.full.Load(), all: l.all.Load()}
		for i := range c.acked {
			c.acked[i] = l.acked[i].Load()
		}
		unsynced := []int{0, 0, 100, l.rnd.IntN(101)}[l.rnd.IntN(4)]
		c.disk = l.disk.Crash(unsynced, l.rnd)
		c.where = fmt.Sprintf("crash after %v, checkpoints of %d pages, %d %% of what was not synced", c.acked, checkpoint, unsynced)
		clones = append(clones, c)
	}
	writers.Wait()
	for _, c := range []func() error{pool.Close, r.Actor.Close, r.Store.Close, db.Close} {
		if err := c(); err != nil {
			t.Error(err)
		}
	}
	return clones
}

// A lateVFS is a VFS in which others have their turn between the last write of a
// transaction to the log and the call that waits for it.
type lateVFS struct{ vfs.Files }

func (v lateVFS) OpenFilename(name *sqlitevfs.Filename, flags sqlitevfs.OpenFlag) (sqlitevfs.File, sqlitevfs.OpenFlag, error) {
	f, flags, err := v.Files.OpenFilename(name, flags)
	if err == nil && flags&sqlitevfs.OPEN_WAL != 0 {
		f = lateFile{f}
	}
	return f, flags, err
}

type lateFile struct{ sqlitevfs.File }

func (f lateFile) Sync(flags sqlitevfs.SyncFlag) error {
	for range 50 {
		runtime.Gosched()
	}
	return f.File.Sync(flags)
}

// checkpoint runs checkpoints all the time, on a connection at NORMAL. Each first stores the log,
// including what a transaction at FULL is about to wait for.
func (l *levels) checkpoint(t *testing.T) {
	c, err := sqlite3.Open(l.dsn)
	if err != nil {
		t.Error(err)
		return
	}
	err = c.Exec("PRAGMA synchronous=NORMAL")
	for err == nil && l.over.Load() < int64(len(levelOf)) {
		err = c.Exec("PRAGMA wal_checkpoint")
		runtime.Gosched()
	}
	if err := errors.Join(err, c.Close()); err != nil {
		t.Error(err)
	}
}

// write runs the transactions of connection i.
func (l *levels) write(t *testing.T, c *sqlite3.Conn, i, rounds int, rnd *rand.Rand) {
	for n := 1; n <= rounds; n++ {
		sql := fmt.Sprintf("begin immediate; insert into t(conn, n, pad) values (%d, %d, randomblob(%d)); commit", i, n, rnd.IntN(9000))
		if err := c.Exec(sql); err != nil {
			t.Errorf("connection %d: %v", i, err)
			return
		}
		l.acked[i].Store(int64(n))
		l.all.Add(1)
		if levelOf[i] == "FULL" {
			l.full.Add(1)
		}
	}
}

// check opens what a crash left, and returns how many transactions below FULL are lost.
func (c *levelClone) check(t *testing.T) (lost int64) {
	t.Helper()
	db, err := c.disk.Open(smallPebble)
	if err != nil {
		t.Fatalf("%s: %v", c.where, err)
	}
	r := openRig(t, db, batch.Limits{})
	pool, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatalf("%s: %v", c.where, err)
	}
	intact(t, pool)
	for i, level := range levelOf {
		// A connection's transactions are numbered without a gap.
		var last, count int64
		if err := pool.QueryRowContext(t.Context(), "select ifnull(max(n), 0), count(*) from t where conn = ?", i).Scan(&last, &count); err != nil {
			t.Fatal(err)
		}
		switch {
		case last != count:
			t.Errorf("%s: connection %d has %d transactions, the last is number %d", c.where, i, count, last)
		case level == "FULL" && last < c.acked[i]:
			t.Errorf("%s: connection %d at FULL has %d transactions", c.where, i, last)
		case last < c.acked[i]:
			lost += c.acked[i] - last
		}
	}
	// Nor have all of them together: what is there is how it began.
	if got := one[bool](t, pool, "select ifnull(max(a), 0) = count(*) from t"); !got {
		t.Errorf("%s: a transaction is missing, and a later one is there", c.where)
	}
	sound(t, r, c.where)
	for _, f := range []func() error{pool.Close, r.Actor.Close, r.Store.Close, db.Close} {
		if err := f(); err != nil {
			t.Errorf("%s: %v", c.where, err)
		}
	}
	return lost
}
