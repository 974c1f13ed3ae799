package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

var ctx = context.Background()

// tiny makes flushes and compactions happen all the time.
var tiny = &Options{MemtableBytes: 64 << 10, CacheBytes: 1 << 20}

// patience is how long a test waits before it calls something hung.
var patience = testkit.Patience(time.Second)

// within fails the test when fn hangs.
func within(t testing.TB, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s hangs", what)
	}
}

// A disk is a file system whose operations can be made to fail.
type disk struct {
	*errorfs.FS
	mem *vfs.MemFS
	// fail decides about every operation; nil lets all pass.
	fail atomic.Pointer[func(errorfs.Op) error]
}

func newDisk(mem *vfs.MemFS) *disk {
	d := &disk{mem: mem}
	d.FS = errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if f := d.fail.Load(); f != nil {
			return (*f)(op)
		}
		return nil
	}))
	return d
}

func (d *disk) set(fail func(errorfs.Op) error) { d.fail.Store(&fail) }

func isLog(op errorfs.Op) bool      { return strings.Contains(op.Path, ".wal") }
func isManifest(op errorfs.Op) bool { return strings.Contains(op.Path, "MANIFEST-") }
func isDir(op errorfs.Op) bool      { return op.Path == "store" }
func writes(op errorfs.Op) bool     { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite }
func isSync(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
}

var errBroken = errors.New("the disk is broken")

// record is one commit of the fault tests: it is numbered, and big enough for a
// tiny memtable to be full soon.
func numbered(n int) *kv.Commit {
	return &kv.Commit{Ops: []kv.Op{
		kv.Set(fmt.Appendf(nil, "%06d", n), []byte(strings.Repeat(fmt.Sprint(n%10), 4096))),
		kv.Clear([]byte("nothing")),
	}}
}

// wantPrefix checks that the store on mem holds records 0, 1, 2, … without a
// hole, and at least the first n.
func wantPrefix(t testing.TB, mem vfs.FS, n int) {
	t.Helper()
	db, err := open("store", tiny, mem)
	if err != nil {
		t.Fatalf("opening what the failure left: %v", err)
	}
	i := 0
	for e, err := range db.Scan(ctx, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		want := numbered(i).Ops[0]
		if string(e.Key) != string(want.Key) || string(e.Value) != string(want.Value) {
			t.Fatalf("entry %d is %q: a hole, or a wrong value", i, e.Key)
		}
		i++
	}
	if i < n {
		t.Errorf("%d records were acknowledged, %d are there", n, i)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestBrokenDisk breaks the disk in one way at a time while commits go on. It checks that the
// process lives, that no call hangs, that every call gets an error, and that no acknowledged commit
// is lost.
func TestBrokenDisk(t *testing.T) {
	for name, breaks := range map[string]func(errorfs.Op) bool{
		"log write":      func(op errorfs.Op) bool { return isLog(op) && op.Kind == errorfs.OpFileWriteAt },
		"log sync":       func(op errorfs.Op) bool { return isLog(op) && isSync(op) },
		"MANIFEST write": func(op errorfs.Op) bool { return isManifest(op) && op.Kind == errorfs.OpFileWrite },
		"MANIFEST sync":  func(op errorfs.Op) bool { return isManifest(op) && isSync(op) },
		"directory sync": func(op errorfs.Op) bool { return isDir(op) && isSync(op) },
		"all syncs":      isSync,
		"all writes":     writes,
		"everything":     func(errorfs.Op) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			testBroken(t, func(op errorfs.Op) error {
				if breaks(op) {
					return errBroken
				}
				return nil
			}, errBroken)
		})
	}
	t.Run("disk full at a MANIFEST's sync", func(t *testing.T) {
		testBroken(t, func(op errorfs.Op) error {
			if isManifest(op) && isSync(op) {
				return syscall.ENOSPC
			}
			return nil
		}, syscall.ENOSPC)
	})
}

func testBroken(t *testing.T, fail func(errorfs.Op) error, cause error) {
	d := newDisk(vfs.NewMem())
	db, err := open("store", tiny, d)
	if err != nil {
		t.Fatal(err)
	}
	const before = 100
	for n := range before {
		if err := db.Commit(ctx, numbered(n)); err != nil {
			t.Fatal(err)
		}
	}
	snap, err := db.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	within(t, "what goes on in the background", func() { settle(db) })
	select {
	case <-db.Failed():
		t.Error("Failed is closed before anything has failed")
	default:
	}
	d.set(fail)

	acked := before
	within(t, "committing on a broken disk", func() { acked = commitUntilPoisoned(t, db, before, cause) })
	within(t, "Failed of a poisoned store", func() { <-db.Failed() })
	within(t, "a call of a poisoned store", func() { wantPoisoned(t, db, snap) })
	if err := db.Commit(ctx, numbered(0)); errors.Is(err, errkind.ErrNoSpace) != errors.Is(cause, syscall.ENOSPC) {
		t.Errorf("after %v a commit says %v, which is or isn't of the kind %v", cause, err, errkind.ErrNoSpace)
	}
	within(t, "Close of a poisoned store", func() {
		if err := snap.Close(); err != nil {
			t.Errorf("closing the snapshot: %v", err)
		}
		if err := db.Close(); !errors.Is(err, kv.ErrPoisoned) {
			t.Errorf("Close: got %v, want %v", err, kv.ErrPoisoned)
		}
		if err := db.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
	wantPrefix(t, d.mem, acked)
}

// settle waits until nothing runs in the background. If a flush or compaction fails while writers
// wait for it, they give up without writing to the log, so the store isn't poisoned.
func settle(db *DB) {
	for {
		m := db.store.db.Metrics()
		if m.Flush.NumInProgress == 0 && m.Compact.NumInProgress == 0 && !waiting(db) {
			return
		}
		runtime.Gosched()
	}
}

// commitUntilPoisoned commits one record after the other, every third without
// waiting for it, with others doing durable commits of nothing beside. It
// returns how many records were acknowledged.
func commitUntilPoisoned(t *testing.T, db *DB, n int, cause error) (acked int) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var err error
			for err == nil {
				err = db.Commit(ctx, &kv.Commit{})
			}
			if !errors.Is(err, kv.ErrPoisoned) {
				t.Errorf("a commit beside got %v, want %v", err, kv.ErrPoisoned)
			}
		})
	}
	defer wg.Wait()
	acked = n
	for ; ; n++ {
		c := numbered(n)
		if n%3 == 0 {
			c.Durability = kv.Applied
		}
		err := db.Commit(ctx, c)
		if err != nil {
			if !errors.Is(err, kv.ErrPoisoned) || !errors.Is(err, cause) {
				t.Errorf("got %v, want %v wrapping %v", err, kv.ErrPoisoned, cause)
			}
			return acked
		}
		if c.Durability == kv.Durable {
			acked = n + 1
		}
		if n > 100_000 {
			t.Fatal("the broken disk went unnoticed")
		}
	}
}

// wantPoisoned checks that every call of a poisoned store says so.
func wantPoisoned(t *testing.T, db *DB, snap kv.Snapshot) {
	t.Helper()
	_, getErr := db.Get(ctx, []byte("000000"), nil)
	_, snapGetErr := snap.Get(ctx, []byte("000000"), nil)
	_, newSnapErr := db.Snapshot(ctx)
	_, outcomeErr := db.Outcome(ctx, kv.CommitID{1})
	last := func(r kv.Reader) (last error) {
		for _, err := range r.Scan(ctx, kv.Range{}) {
			last = err
		}
		return last
	}
	for call, err := range map[string]error{
		"Get": getErr, "Get of a snapshot": snapGetErr, "Snapshot": newSnapErr, "Outcome": outcomeErr,
		"Scan": last(db), "Scan of a snapshot": last(snap),
		"Sync":           db.Sync(ctx, db.Incarnation()),
		"Commit":         db.Commit(ctx, numbered(0)),
		"Commit Applied": db.Commit(ctx, &kv.Commit{Ops: numbered(0).Ops, Durability: kv.Applied}),
	} {
		if !errors.Is(err, kv.ErrPoisoned) {
			t.Errorf("%s: got %v, want %v", call, err, kv.ErrPoisoned)
		}
	}
}

// TestEveryFailure makes the n-th writing operation of a store's life fail, and
// all after it, for every n, beginning with the first of Open.
func TestEveryFailure(t *testing.T) {
	step := testkit.Pick(7, 1, 1)
	for n := 0; ; n += step {
		reached := false
		t.Run(fmt.Sprint(n), func(t *testing.T) { reached = testFailureAt(t, int32(n)) })
		if !reached || t.Failed() {
			break
		}
		if testkit.Short() && n > 60 {
			n += n / 20 // the first are those of Open, one as different as the other
		}
	}
}

// testFailureAt reports whether the operation was reached.
func testFailureAt(t *testing.T, index int32) (reached bool) {
	d := newDisk(vfs.NewMem())
	var done atomic.Int32
	d.set(func(op errorfs.Op) error {
		if writes(op) && done.Add(1) > index {
			return errBroken
		}
		return nil
	})
	acked := 0
	within(t, "a store on a disk that breaks", func() {
		db, err := open("store", tiny, d)
		for n := 0; err == nil && n < 200; n++ {
			c := numbered(n)
			c.Durability = kv.Durability(n / 5 % 2)
			if err = db.Commit(ctx, c); err == nil && c.Durability == kv.Durable {
				acked = n + 1
			}
		}
		if err != nil && !errors.Is(err, errBroken) {
			t.Errorf("got %v, want %v", err, errBroken)
		}
		if db != nil {
			if cerr := db.Close(); err == nil && cerr != nil && !errors.Is(cerr, errBroken) {
				t.Errorf("Close: %v", cerr)
			}
		}
	})
	wantPrefix(t, d.mem, acked)
	return done.Load() > index
}

// TestOpenOnBrokenDisk opens an existing store, with a log to be replayed, on a
// disk of which one operation fails, or all after it: Open must return, with
// that error or without, and leave the store usable.
func TestOpenOnBrokenDisk(t *testing.T) {
	t.Parallel()
	for _, forever := range []bool{false, true} {
		for n := int32(0); ; n++ {
			mem := vfs.NewCrashableMem()
			db, err := open("store", &Options{MemtableBytes: 1 << 20}, mem)
			if err != nil {
				t.Fatal(err)
			}
			const records = 50
			for i := range records {
				if err := db.Commit(ctx, numbered(i)); err != nil {
					t.Fatal(err)
				}
			}
			d := newDisk(mem.CrashClone(vfs.CrashCloneCfg{}))
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			var done atomic.Int32
			d.set(func(op errorfs.Op) error {
				if i := done.Add(1) - 1; i == n || forever && i > n {
					return errBroken
				}
				return nil
			})
			within(t, fmt.Sprintf("Open with operation %d failing", n), func() {
				db, err := open("store", tiny, d)
				if err != nil {
					return
				}
				if err := db.Close(); err != nil && !errors.Is(err, kv.ErrPoisoned) {
					t.Errorf("operation %d fails, Open succeeds, and Close returns %v", n, err)
				}
			})
			wantPrefix(t, d.mem, records)
			if done.Load() <= n || t.Failed() {
				break
			}
		}
	}
}

// TestPoisonedMeanwhile: a commit that waited while the store was poisoned isn't applied, nor is it
// in the log.
func TestPoisonedMeanwhile(t *testing.T) {
	db, err := open("store", nil, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Commit(ctx, numbered(1)); err != nil {
		t.Fatal(err)
	}
	broken, last := errors.New("broken"), db.store.log.Last()
	db.store.fault.Set(broken)
	// Commit itself would have looked before it waits.
	if _, _, err := db.commits.run(ctx, numbered(2)); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if n := db.store.log.Last(); n != last {
		t.Errorf("record %d is in the log", n)
	}
	if err := db.Close(); !errors.Is(err, kv.ErrPoisoned) {
		t.Errorf("Close: %v", err)
	}
}
