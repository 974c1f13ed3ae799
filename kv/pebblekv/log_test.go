package pebblekv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/wal"
)

// all returns what a store has.
func all(t testing.TB, r kv.Reader) map[string]string {
	t.Helper()
	got := map[string]string{}
	for e, err := range r.Scan(ctx, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		got[string(e.Key)] = string(e.Value)
	}
	return got
}

// TestKeptFormats opens a store of each format that there ever was, the first one for reading alone. The last ten of its commits are in
// the log alone, and what each has changed is little.
func TestKeptFormats(t *testing.T) {
	want := map[string]string{"a": "1"}
	for n := range 100 {
		page := bytes.Repeat([]byte("page"), 512)
		copy(page, fmt.Sprintf("commit %d", n))
		want[fmt.Sprintf("page %d", n%10)] = string(page)
	}
	for _, format := range []string{"format1", "format2"} {
		t.Run(format, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", format))); err != nil {
				t.Fatal(err)
			}
			version := uint64(0)
			for _, opts := range []*Options{{ReadOnly: true}, nil, nil, {ReadOnly: true}} {
				db, err := Open(dir, opts)
				if format == "format1" && opts == nil {
					if !errors.Is(err, kv.ErrUnsupported) {
						t.Errorf("got %v, want %v", err, kv.ErrUnsupported)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := all(t, db); !maps.Equal(got, want) {
					t.Errorf("opened with %+v it has %d rows, or other ones", opts, len(got))
				}
				if number, err := flushed(db.store.db); opts == nil && (err != nil || number != db.store.log.Last()) {
					t.Errorf("the tables have the log up to %d, %v, and it ends at %d", number, err, db.store.log.Last())
				}
				if v := db.commits.version.Load(); v < version || v == 0 {
					t.Errorf("version %d after %d", v, version)
				} else {
					version = v
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestReadOnlyLog reads a store whose newest commits are in the log alone.
func TestReadOnlyLog(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	db, err := Open(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	page := bytes.Repeat([]byte("page"), 1024)
	put := func(db *DB, n int) {
		t.Helper()
		for i := range n {
			page[i]++
			c := &kv.Commit{Ops: []kv.Op{kv.Set([]byte("page"), page), kv.Set(fmt.Append(nil, i), nil)}}
			if i == 7 {
				c.Ops = append(c.Ops, kv.ClearRange([]byte("2"), []byte("5")))
			}
			if err := db.Commit(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(db, 500) // so that the sequence numbers in the tables are large
	if err := db.store.db.Flush(); err != nil {
		t.Fatal(err)
	}
	put(db, 10)
	want := all(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	read, err := Open(store, &Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := all(t, read); !maps.Equal(got, want) {
		t.Errorf("%d rows are read of %d, or other ones", len(got), len(want))
	}
	if v, err := read.Get(ctx, []byte("page"), nil); err != nil || !bytes.Equal(v, page) {
		t.Errorf("the page is %d bytes, %v", len(v), err)
	}
	if err := read.Checkpoint(ctx, store+".copy"); !errors.Is(err, errReadOnly) {
		t.Errorf("Checkpoint: %v, want %v", err, errReadOnly)
	}
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCheckpointWithoutLog: a copy that was cut short isn't taken for a store.
func TestCheckpointWithoutLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "copied")
	disk, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(disk.Commit(ctx, numbered(0)), disk.store.db.Flush(), disk.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, logDir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, logDir), 0o700); err != nil {
		t.Fatal(err)
	}
	wantOpenErr(t, dir, nil, kv.ErrCorrupt)
}

// TestDiskFull fills the disk, or has room for everything but Pebble's list of tables: commits are
// refused, with an error of that kind, and nothing else has happened. When there is room again they go on,
// and a store that closes before has everything.
func TestDiskFull(t *testing.T) {
	for name, needsRoom := range map[string]func(op errorfs.Op) bool{"everything": func(errorfs.Op) bool { return true }, "a MANIFEST": isManifest} {
		t.Run(name, func(t *testing.T) { testDiskFull(t, needsRoom) })
	}
}

func testDiskFull(t *testing.T, needsRoom func(op errorfs.Op) bool) {
	mem := vfs.NewMem()
	d := newDisk(mem)
	db, err := open("store", tiny, d)
	if err != nil {
		t.Fatal(err)
	}
	accepted := map[string]string{}
	put := func(n int) error {
		c := numbered(n)
		err := db.Commit(ctx, c)
		if err == nil {
			accepted[string(c.Ops[0].Key)] = string(c.Ops[0].Value)
		}
		return err
	}
	n, refused := 0, 0
	rounds := testkit.Pick(3, 10, 10)
	for round := range rounds {
		for ; n < (round+1)*60; n++ {
			for put(n) != nil { // until a flush has succeeded
				settle(db)
			}
		}
		d.set(func(op errorfs.Op) error {
			info, err := mem.Stat(op.Path)
			inside := op.Kind == errorfs.OpFileWriteAt && err == nil && op.Offset < info.Size()
			if kinds := []errorfs.OpKind{errorfs.OpCreate, errorfs.OpFileWriteAt, errorfs.OpFileWrite}; inside || !slices.Contains(kinds, op.Kind) || !needsRoom(op) {
				return nil
			}
			return syscall.ENOSPC
		})
		within(t, "a full disk", func() {
			for i := 0; ; i++ {
				err := put(n)
				if err == nil {
					n++
					continue
				}
				if !errors.Is(err, errkind.ErrNoSpace) || errors.Is(err, kv.ErrPoisoned) {
					t.Fatalf("round %d, commit %d: %v", round, i, err)
				}
				refused++
				break
			}
		})
		if got := all(t, db); !maps.Equal(got, accepted) {
			t.Fatalf("%d rows on a full disk, %d were accepted", len(got), len(accepted))
		}
		if round == rounds-1 {
			break
		}
		d.set(func(errorfs.Op) error { return nil })
		within(t, "room again", func() {
			for put(n) != nil {
				settle(db)
			}
			n++
		})
	}
	within(t, "Close on a full disk", func() {
		// Where a table has room, and its name in the list has none, Close can't wait for that.
		if err := db.Close(); err != nil && !(errors.Is(err, errkind.ErrNoSpace) && strings.Contains(err.Error(), "MANIFEST")) {
			t.Errorf("Close on a full disk: %v", err)
		}
	})
	if db, err = open("store", tiny, mem); err != nil {
		t.Fatal(err)
	}
	if got := all(t, db); !maps.Equal(got, accepted) {
		t.Errorf("%d rows, %d were accepted", len(got), len(accepted))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLogBound: the tables are written before they lack too much of the log, however large a memtable is.
func TestLogBound(t *testing.T) {
	db, err := open("store", &Options{maxLog: 1 << 20}, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	most := int64(0)
	for n := range 5000 {
		if err := db.Commit(ctx, numbered(n)); err != nil {
			t.Fatal(err)
		}
		most = max(most, db.store.log.Size())
	}
	// It is looked at after half a file each.
	if most < 512<<10 || most > 2<<20 {
		t.Errorf("the tables lack up to %d bytes of the log", most)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLacking: the tables are asked for what has been applied, not for a batch that is only in the log yet, and
// those of a poisoned store aren't believed.
func TestLacking(t *testing.T) {
	db, err := open("store", &Options{maxLog: 1 << 30}, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Commit(ctx, numbered(0)); err != nil {
		t.Fatal(err)
	}
	look, looked := db.commits.lacking(1), make(chan struct{})
	db.commits.order.Lock()
	b := db.commits.newBatch(0)
	err = b.Set([]byte("a"), nil, nil)
	number, lerr := db.store.log.Append(b.Repr()[seqNumBytes:])
	go func() {
		defer close(looked)
		look()
	}()
	for range 10_000 {
		runtime.Gosched()
	}
	select {
	case <-looked:
		t.Error("it didn't wait for the commit that is being applied")
	default:
	}
	err = errors.Join(err, lerr, b.Set(numberKey, binary.BigEndian.AppendUint64(nil, number), nil), db.store.db.Apply(b, pebble.NoSync), b.Close())
	db.commits.order.Unlock()
	if <-looked; err != nil {
		t.Fatal(err)
	}
	for look() { // until the tables have it
		runtime.Gosched()
	}
	if n, err := flushed(db.store.db); n != number || err != nil {
		t.Errorf("the tables have the log up to %d, %v, want %d", n, err, number)
	}
	// One that is poisoned has the same tables, and a log with one record, which they have by number.
	fs := vfs.NewMem()
	poisoned := &journal{store: &store{db: db.store.db, fault: workaround.NewFault()}}
	poisoned.fault.Set(errBroken)
	if poisoned.log, err = wal.Open(wal.Options{FS: fs, FileBytes: 1 << 20}, 0, nil); err == nil {
		_, err = poisoned.log.Append([]byte("batch"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if poisoned.lacking(1)(); poisoned.log.Size() == 0 {
		t.Error("the log lets go of what the tables of a poisoned store have")
	}
	if err := errors.Join(poisoned.log.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestLogDamaged: a commit that was durable, of a store that was killed, isn't left out in silence.
func TestLogDamaged(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	db, err := Open(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if err := db.Commit(ctx, numbered(n)); err != nil {
			t.Fatal(err)
		}
	}
	copyStore(t, from, dir)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, logDir, "000002.wal")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.Index(b, []byte("000001"))] = '9'
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, opts := range []*Options{nil, {ReadOnly: true}} {
		wantOpenErr(t, dir, opts, kv.ErrCorrupt)
		if _, err := Open(dir, opts); err == nil || !strings.Contains(err.Error(), "000002.wal") {
			t.Errorf("the error is %v", err)
		}
	}
}

// TestOpenFailsWithLog opens a store whose log has several files, which a crash has left, and has each
// operation fail once: on a healthy disk everything is there.
func TestOpenFailsWithLog(t *testing.T) {
	opts := &Options{maxLog: 1 << 20} // files of 256 KiB
	mem := vfs.NewCrashableMem()
	d := newDisk(mem)
	d.set(func(op errorfs.Op) error {
		if workaround.IsTable(op.Path) && op.Kind == errorfs.OpCreate {
			return errBroken
		}
		return nil
	})
	db, err := open("store", opts, d)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for db.Commit(ctx, numbered(n)) == nil { // until the gate is closed
		n++
	}
	left := mem.CrashClone(vfs.CrashCloneCfg{})
	d.set(func(op errorfs.Op) error { return nil })
	if names, err := left.List("store/" + logDir); err != nil || len(names) < 4 {
		t.Fatal(names, err)
	}
	for step := 0; ; step += 1 + step/30 {
		clone := vfs.NewCrashableMem()
		if _, err := vfs.Clone(left, clone, "store", "store", vfs.CloneSync); err != nil {
			t.Fatal(err)
		}
		d2 := newDisk(clone)
		var mu sync.Mutex
		k, what := 0, ""
		d2.set(func(op errorfs.Op) error {
			if !writes(op) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if k++; k == step+1 {
				what = fmt.Sprint(op.Kind, " ", op.Path)
				return errBroken
			}
			return nil
		})
		db, err := open("store", opts, d2)
		if err == nil {
			_ = db.Close()
			mu.Lock()
			over := k <= step
			mu.Unlock()
			if over {
				return
			}
			continue
		}
		db, err = open("store", opts, clone)
		if err != nil {
			t.Errorf("step %d, %s fails once; opened again: %v", step, what, err)
			continue
		}
		for i := range n {
			if _, err := db.Get(ctx, numbered(i).Ops[0].Key, nil); err != nil {
				t.Errorf("step %d %s: %d: %v", step, what, i, err)
				break
			}
		}
		_ = db.Close()
	}
}

// TestTransactionDiskFull: a transaction on a full disk is refused as such, too.
func TestTransactionDiskFull(t *testing.T) {
	d := newDisk(vfs.NewMem())
	db, err := open("store", nil, d)
	if err != nil {
		t.Fatal(err)
	}
	d.set(func(op errorfs.Op) error {
		if isLog(op) && op.Kind == errorfs.OpCreate {
			return syscall.ENOSPC
		}
		return nil
	})
	if err := txs(t, db).Update(ctx, setter("a", "1")); !errors.Is(err, errkind.ErrNoSpace) {
		t.Errorf("got %v, want %v", err, errkind.ErrNoSpace)
	}
	d.set(func(errorfs.Op) error { return nil })
	if err := errors.Join(txs(t, db).Update(ctx, setter("a", "1")), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestPoisonedLog: when a poisoned store is closed so is its log, and its readers are told.
func TestPoisonedLog(t *testing.T) {
	db, err := open("store", tiny, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Commit(ctx, numbered(0)); err != nil {
		t.Fatal(err)
	}
	r, err := db.store.log.NewReader(2)
	if err != nil {
		t.Fatal(err)
	}
	db.store.fault.Set(errBroken) // as the fence does
	if err := db.Close(); !errors.Is(err, kv.ErrPoisoned) {
		t.Error(err)
	}
	within(t, "a reader of the log of a poisoned store", func() {
		if _, _, err := r.Next(ctx); !errors.Is(err, errBroken) {
			t.Errorf("it gets %v", err)
		}
	})
}

// numberedIn opens a store, which must have numbered commits from the first one on, and returns how many.
func numberedIn(t *testing.T, fs vfs.FS, dir string) (n int, err error) {
	t.Helper()
	db, err := open(dir, tiny, fs)
	if err != nil {
		return 0, err
	}
	for e, err := range db.Scan(ctx, kv.Range{}) {
		if want := numbered(n).Ops[0]; err != nil || string(e.Key) != string(want.Key) {
			t.Errorf("entry %d is %q, %v", n, e.Key, err)
		}
		n++
	}
	if number, err := flushed(db.store.db); err != nil || number != db.store.log.Last() {
		t.Errorf("the tables have what is up to %d, %v, and the log goes to %d", number, err, db.store.log.Last())
	}
	return n, db.Close()
}

// TestCheckpointBeside copies a store while others commit, and crashes at each write of that: a copy is
// the state after some commits, with all that there were before, or it is refused.
func TestCheckpointBeside(t *testing.T) {
	mem := vfs.NewCrashableMem()
	d := newDisk(mem)
	db, err := open("store", tiny, d)
	if err != nil {
		t.Fatal(err)
	}
	var acked atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for n := 0; n < 2000; n++ {
			select {
			case <-stop:
				return
			default:
			}
			c := numbered(n)
			c.Durability = kv.Durability(n % 2)
			if err := db.Commit(ctx, c); err != nil {
				t.Error(err)
				return
			}
			acked.Store(int64(n + 1))
		}
	})
	var crashes []*vfs.MemFS
	for round := range 4 {
		for acked.Load() < int64(10*(round+1)) {
			runtime.Gosched()
		}
		dir, before := fmt.Sprint("copy", round), acked.Load()
		if round == 3 {
			var mu sync.Mutex
			d.set(func(op errorfs.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if writes(op) && strings.HasPrefix(op.Path, dir) && !workaround.IsTable(op.Path) {
					crashes = append(crashes, mem.CrashClone(vfs.CrashCloneCfg{}))
				}
				return nil
			})
		}
		if err := db.Checkpoint(ctx, dir); err != nil {
			t.Fatal(err)
		}
		d.set(func(errorfs.Op) error { return nil })
		if n, err := numberedIn(t, mem.CrashClone(vfs.CrashCloneCfg{}), dir); err != nil || int64(n) < before {
			t.Errorf("copy %d has %d commits of %d, %v", round, n, before, err)
		}
	}
	for i, left := range crashes {
		if names, err := left.List("copy3"); err != nil || len(names) == 0 {
			continue // it isn't there
		}
		if n, err := numberedIn(t, left, "copy3"); err == nil && n > 0 && n < 40 {
			t.Errorf("crash %d: the copy has %d commits", i, n)
		}
	}
	close(stop)
	all.Wait()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
