package pebblekv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// txs returns the transactions of d, which aren't too old however long the test is held up.
func txs(t testing.TB, d *DB) *txn.DB {
	t.Helper()
	db, err := txn.New(d, &txn.Options{MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func setter(key, value string) func(tx *txn.Tx) error {
	return func(tx *txn.Tx) error { return tx.Set([]byte(key), []byte(value)) }
}

// dump prints all that a store shows.
func dump(t testing.TB, r kv.Reader, rng kv.Range) (out string) {
	t.Helper()
	for e, err := range r.Scan(ctx, rng) {
		if err != nil {
			t.Fatal(err)
		}
		out += fmt.Sprintf("%s=%s ", e.Key, e.Value)
	}
	return out
}

// TestOwnRow: the row with the version can't be read or changed through the API.
func TestOwnRow(t *testing.T) {
	d, err := open("store", nil, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	if err := txs(t, d).Update(ctx, setter("a", "1")); err != nil {
		t.Fatal(err)
	}
	around := []kv.Op{kv.Set([]byte("\xff"), []byte("2")), kv.Set(versionKey[:len(versionKey)-1], []byte("3")), kv.Set(afterOwn, []byte("4"))}
	if err := d.Commit(ctx, &kv.Commit{Ops: around}); err != nil {
		t.Fatal(err)
	}
	snap, err := d.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []kv.Reader{d, snap, snap} {
		if _, err := r.Get(ctx, versionKey, nil); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
		want := fmt.Sprintf("a=1 \xff=2 %s=3 %s=4 ", versionKey[:len(versionKey)-1], afterOwn)
		if got := dump(t, r, kv.Range{}); got != want {
			t.Errorf("Scan: got %q, want %q", got, want)
		}
		if got := dump(t, r, kv.Range{Start: versionKey, Limit: 1}); got != string(afterOwn)+"=4 " {
			t.Errorf("Scan from the row: %q", got)
		}
		if got := dump(t, r, kv.Range{End: afterOwn, Reverse: true, Limit: 1}); got != string(versionKey[:len(versionKey)-1])+"=3 " {
			t.Errorf("Scan backwards from the row: %q", got)
		}
	}
	if err := snap.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		c    kv.Commit
		want error
	}{
		"set":          {kv.Commit{Ops: []kv.Op{kv.Set(versionKey, nil)}}, kv.ErrInvalid},
		"clear":        {kv.Commit{Ops: []kv.Op{kv.Clear(versionKey)}}, kv.ErrInvalid},
		"check":        {kv.Commit{Checks: []kv.Check{{Key: versionKey, Value: []byte(ownRow(t, d))}}}, kv.ErrConflict},
		"check absent": {kv.Commit{Checks: []kv.Check{{Key: versionKey, Absent: true}}}, nil},
	} {
		if err := d.Commit(ctx, &c.c); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	err = txs(t, d).Update(ctx, setter(string(versionKey), "x"))
	if !errors.Is(err, kv.ErrInvalid) {
		t.Errorf("a transaction that sets it: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// ownRow returns the row with the version.
func ownRow(t *testing.T, d *DB) string {
	t.Helper()
	v, closer, err := d.store.db.Get(versionKey)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	return string(v)
}

// TestOwnRowStays: no range clears the row with the version.
func TestOwnRowStays(t *testing.T) {
	d, err := open("store", nil, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	if err := txs(t, d).Update(ctx, setter("a", "1")); err != nil {
		t.Fatal(err)
	}
	version := ownRow(t, d)
	// Cleared in few and in many, with and without keys of the commit's own.
	for n, end := range [][]byte{afterOwn, []byte("\xff\xff\xff"), append(versionKey, "zz"...)} {
		var ops []kv.Op
		for i := range 200 * n {
			ops = append(ops, kv.Set(fmt.Appendf(nil, "\xff\xff/%d", i), nil))
		}
		if err := d.Commit(ctx, &kv.Commit{Ops: append(ops, kv.ClearRange(nil, end))}); err != nil {
			t.Fatal(err)
		}
		if got := ownRow(t, d); got != version {
			t.Errorf("clearing up to %q left %x, want %x", end, got, version)
		}
		if got := dump(t, d, kv.Range{End: end}); got != "" {
			t.Errorf("clearing up to %q left %q", end, got)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// stampAll writes a stamp under key and returns it.
func stampAll(db *txn.DB, key string) (txn.Stamp, error) {
	var tx *txn.Tx
	err := db.Update(ctx, func(now *txn.Tx) error {
		tx = now
		return tx.SetVersionstampedValue([]byte(key), make([]byte, len(txn.Stamp{})+4))
	})
	if err != nil {
		return txn.Stamp{}, err
	}
	return tx.Versionstamp()
}

// TestVersionAcrossRestarts: the version grows over restarts of any kind, and a store
// whose row makes no sense is corrupt.
func TestVersionAcrossRestarts(t *testing.T) {
	mem := vfs.NewMem()
	var last txn.Stamp
	for range 5 {
		d, err := open("store", nil, mem)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			stamp, err := stampAll(txs(t, d), "k")
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Compare(stamp[:], last[:]) <= 0 {
				t.Errorf("stamp %x after %x", stamp, last)
			}
			last = stamp
			if err := d.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte("plain"), nil)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	d, err := open("store", nil, mem)
	if err != nil {
		t.Fatal(err)
	}
	b := d.store.db.NewBatch()
	err = b.Set(versionKey, []byte("short"), nil)
	if err == nil {
		_, err = d.commits.put(b)
	}
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := open("store", nil, mem); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("a damaged version: %v", err)
	}
}

// TestCrashOfTransactions crashes beside transactions that append their stamps to lists. It checks
// that every acknowledged stamp is left, that what is left is the work of whole groups, and that no
// stamp is used again, not even one that only a reader saw.
func TestCrashOfTransactions(t *testing.T) {
	const workers, each, rounds = 4, 12, 6
	rnd := rand.New(rand.NewPCG(5, 5))
	disk := NewCrashDisk()
	var newest atomic.Uint64 // version that anybody has seen
	saw := func(v uint64) {
		for now := newest.Load(); v > now && !newest.CompareAndSwap(now, v); now = newest.Load() {
		}
	}
	for round := range rounds {
		d, err := disk.Open(tiny)
		if err != nil {
			t.Fatal(err)
		}
		db, before := txs(t, d), newest.Load()
		var mu sync.Mutex
		acked := map[string]string{}
		crash := make(chan struct{})
		var after *CrashDisk
		var have map[string]string
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := range each {
					key := fmt.Sprintf("%d/%d/%d", round, w, i)
					stamp, err := stampTwice(db, key)
					if err != nil {
						t.Error(err)
						return
					}
					if v := binary.BigEndian.Uint64(stamp[:]); v <= before {
						t.Errorf("version %d in round %d, %d was seen before", v, round, before)
					}
					if v, err := d.Get(ctx, []byte("a"+key), nil); err == nil {
						saw(binary.BigEndian.Uint64(v))
					}
					mu.Lock()
					acked[key] = string(stamp[:])
					if len(acked) == workers*each/2 {
						close(crash)
					}
					mu.Unlock()
				}
			})
		}
		<-crash
		mu.Lock()
		have = map[string]string{}
		for k, v := range acked {
			have[k] = v
		}
		mu.Unlock()
		after = disk.Crash(round*100/(rounds-1), rnd)
		wg.Wait()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		checkStamps(t, after, have)
		disk = after
	}
}

// stampTwice writes one stamp under two keys, and adds to a counter.
func stampTwice(db *txn.DB, key string) (txn.Stamp, error) {
	var tx *txn.Tx
	err := db.Update(ctx, func(now *txn.Tx) error {
		tx = now
		stamp := make([]byte, len(txn.Stamp{})+4)
		return errors.Join(tx.SetVersionstampedValue([]byte("a"+key), stamp), tx.SetVersionstampedValue([]byte("b"+key), stamp),
			tx.Atomic(txn.MutationAdd, []byte("n"), []byte{1, 0, 0, 0}))
	})
	if err != nil {
		return txn.Stamp{}, err
	}
	return tx.Versionstamp()
}

// checkStamps opens what a crash left.
func checkStamps(t *testing.T, disk *CrashDisk, acked map[string]string) {
	t.Helper()
	d, err := disk.Open(tiny)
	if err != nil {
		t.Fatal(err)
	}
	got, n := map[string]string{}, 0
	for e, err := range d.Scan(ctx, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		got[string(e.Key)] = string(e.Value)
	}
	for k, v := range acked {
		if got["a"+k] != v || got["b"+k] != v {
			t.Errorf("acknowledged %s has %x and %x, want %x", k, got["a"+k], got["b"+k], v)
		}
	}
	for k, v := range got {
		if k[0] == 'a' {
			if n++; got["b"+k[1:]] != v {
				t.Errorf("half a transaction: %s", k)
			}
		}
	}
	if sum := binary.LittleEndian.Uint32([]byte(got["n"] + "\x00\x00\x00\x00")); int(sum) != n {
		t.Errorf("%d transactions are left, %d were counted", n, sum)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestTransactionsShareSyncs: transactions that commit while the disk is busy share its
// next sync, and those beside one that is being applied are one batch.
func TestTransactionsShareSyncs(t *testing.T) {
	const workers, rounds = 16, 10
	dk := newDisk(vfs.NewMem())
	d, err := open("store", nil, dk)
	if err != nil {
		t.Fatal(err)
	}
	db := txs(t, d)
	if err := db.Update(ctx, setter("first", "v")); err != nil { // this reserves versions
		t.Fatal(err)
	}
	var syncs atomic.Int64
	dk.set(func(op errorfs.Op) error {
		if isLog(op) && isSync(op) {
			syncs.Add(1)
		}
		return nil
	})
	for range rounds {
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for w := range workers {
			wg.Go(func() {
				<-begin
				if err := db.Update(ctx, setter(fmt.Sprint(w), "v")); err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		wg.Wait()
	}
	if n := syncs.Load(); n < rounds || n > workers*rounds {
		t.Errorf("%d transactions took %d syncs", workers*rounds, n)
	}
	syncs.Store(0)
	if err := db.View(ctx, func(tx *txn.Tx) error { _, err := tx.Get(ctx, []byte("1"), nil); return err }); err != nil {
		t.Fatal(err)
	}
	if n := syncs.Load(); n != 0 {
		t.Errorf("a View took %d syncs", n)
	}
	if err := db.Update(ctx, setter("k", "v")); err != nil {
		t.Fatal(err)
	}
	if n := syncs.Load(); n != 1 {
		t.Errorf("an Update took %d syncs", n)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestPoisonedTransaction: a failing disk poisons the store, and the transaction says
// so instead of that it was applied or not.
func TestPoisonedTransaction(t *testing.T) {
	dk := newDisk(vfs.NewMem())
	d, err := open("store", nil, dk)
	if err != nil {
		t.Fatal(err)
	}
	db := txs(t, d)
	dk.set(func(op errorfs.Op) error {
		if isLog(op) && op.Kind == errorfs.OpFileSyncData {
			return syscall.EIO
		}
		return nil
	})
	within(t, "a transaction on a failing disk", func() {
		for range 2 {
			if err := db.Update(ctx, setter("k", "v")); !errors.Is(err, kv.ErrPoisoned) {
				t.Errorf("Update: %v", err)
			}
		}
		if err := db.View(ctx, func(tx *txn.Tx) error { _, err := tx.Get(ctx, []byte("k"), nil); return err }); !errors.Is(err, kv.ErrPoisoned) {
			t.Errorf("View: %v", err)
		}
		if err := d.Close(); !errors.Is(err, kv.ErrPoisoned) {
			t.Errorf("Close: %v", err)
		}
	})
}

// TestCheckpoint: a checkpoint is a store with the state it was made in, and one that fails does no
// harm.
func TestCheckpoint(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	db := txs(t, d)
	if err := db.Update(ctx, setter("a", "1")); err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte("b"), []byte("2"))}, Durability: kv.Applied}); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "copy")
	if err := db.Checkpoint(ctx, copied); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(ctx, setter("a", "3")); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{copied, filepath.Join(dir, "store"), filepath.Join(dir, "store", "inside"), filepath.Join(dir, "store", "CURRENT", "x")} {
		if err := db.Checkpoint(ctx, bad); err == nil {
			t.Errorf("a checkpoint at %s", bad)
		}
	}
	c, err := Open(copied, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := dump(t, c, kv.Range{}); got != "a=1 b=2 " {
		t.Errorf("the copy has %q", got)
	}
	if stamp, err := stampAll(txs(t, c), "k"); err != nil || stamp == (txn.Stamp{}) {
		t.Errorf("a transaction in the copy: %x, %v", stamp, err)
	}
	if got := dump(t, d, kv.Range{}); got != "a=3 b=2 " {
		t.Errorf("the original has %q", got)
	}
	if err := errors.Join(c.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}

// TestFailingCheckpoint: a store stays usable if the disk can't take the copy.
func TestFailingCheckpoint(t *testing.T) {
	dk := newDisk(vfs.NewMem())
	d, err := open("store", nil, dk)
	if err != nil {
		t.Fatal(err)
	}
	db := txs(t, d)
	if err := db.Update(ctx, setter("a", "1")); err != nil {
		t.Fatal(err)
	}
	failed := 0
	dk.set(func(op errorfs.Op) error {
		if writes(op) && len(op.Path) >= 4 && op.Path[:4] == "copy" {
			failed++
			return syscall.ENOSPC
		}
		return nil
	})
	if err := db.Checkpoint(ctx, "copy"); !errors.Is(err, syscall.ENOSPC) || failed == 0 {
		t.Errorf("Checkpoint on a full disk: %v, after %d failures", err, failed)
	}
	if err := db.Update(ctx, setter("a", "2")); err != nil {
		t.Errorf("a transaction after it: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestNothingOpen: when no transaction is open and nothing watched, the engine's own
// commits have nothing to do with any of it.
func TestNothingOpen(t *testing.T) {
	d, err := open("store", nil, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	busy := func() bool {
		d.commits.order.Lock()
		defer d.commits.order.Unlock()
		return d.commits.txs.Busy()
	}
	c := &kv.Commit{Ops: []kv.Op{kv.Set([]byte("k"), make([]byte, 100))}, Durability: kv.Applied}
	ofCommit := func() float64 {
		return allocs(100, func() {
			if err := d.Commit(ctx, c); err != nil {
				t.Fatal(err)
			}
		})
	}
	before := ofCommit()
	db := txs(t, d)
	for range 3 {
		err := db.Update(ctx, func(tx *txn.Tx) error {
			if _, err := tx.Get(ctx, []byte("k"), nil); err != nil {
				return err
			}
			if !busy() {
				t.Error("not busy with an open transaction")
			}
			return tx.Set([]byte("a"), nil)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.View(ctx, func(tx *txn.Tx) error { _, err := tx.Get(ctx, []byte("k"), nil); return err }); err != nil {
		t.Fatal(err)
	}
	if busy() {
		t.Error("busy with nothing")
	}
	if after := ofCommit(); after != before && !testkit.Race {
		t.Errorf("%v allocations per commit after transactions, %v before", after, before)
	}
}
