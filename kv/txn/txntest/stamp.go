package txntest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// incomplete returns b with a placeholder for a stamp behind prefix, and its offset at
// the end.
func incomplete(prefix, suffix string) []byte {
	b := append([]byte(prefix), bytes.Repeat([]byte{0xff}, len(txn.Stamp{}))...)
	b = append(b, suffix...)
	return binary.LittleEndian.AppendUint32(b, uint32(len(prefix)))
}

// complete is what it becomes.
func complete(prefix string, stamp txn.Stamp, suffix string) string {
	return prefix + string(stamp[:]) + suffix
}

// testStamps: stamps in values, at either end, and what the transaction then knows.
func testStamps(t *testing.T, db *txn.DB) {
	var last txn.Stamp
	for i, c := range [][2]string{{"", ""}, {"head", ""}, {"", "tail"}, {"head", "tail"}} {
		var tx *txn.Tx
		update(t, db, func(now *txn.Tx) {
			tx = now
			if _, err := tx.Versionstamp(); !errors.Is(err, txn.ErrNoVersionstamp) {
				t.Errorf("Versionstamp before the commit: %v", err)
			}
			if err := errors.Join(
				tx.SetVersionstampedValue([]byte("k"), incomplete(c[0], c[1])),
				tx.SetVersionstampedValue([]byte("k2"), incomplete("x", "")),
				tx.Set([]byte("plain"), incomplete("", ""))); err != nil {
				t.Fatal(err)
			}
		})
		stamp, err := tx.Versionstamp()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Compare(stamp[:], last[:]) <= 0 {
			t.Errorf("stamp %d is %x after %x", i, stamp, last)
		}
		last = stamp
		suite.WantGet(t, db.Engine(), "k", complete(c[0], stamp, c[1]))
		suite.WantGet(t, db.Engine(), "k2", complete("x", stamp, ""))
		suite.WantGet(t, db.Engine(), "plain", string(incomplete("", "")))
	}
	// Every commit that writes has one, also of a declared span alone, and no other.
	tx := begin(t, db)
	do(t, tx, "set a 1")
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if stamp, err := tx.Versionstamp(); err != nil || bytes.Compare(stamp[:], last[:]) <= 0 {
		t.Errorf("a plain write: stamp %x after %x, %v", stamp, last, err)
	}
	tx = begin(t, db)
	do(t, tx, "get a")
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Versionstamp(); !errors.Is(err, txn.ErrNoVersionstamp) {
		t.Errorf("Versionstamp of a transaction that only read: %v", err)
	}
	// In order with other operations on the key.
	update(t, db, func(now *txn.Tx) {
		tx = now
		stamped := func(key string) error { return tx.SetVersionstampedValue([]byte(key), incomplete("", "")) }
		if err := errors.Join(
			stamped("cleared"), tx.Clear([]byte("cleared")),
			stamped("set"), tx.Set([]byte("set"), []byte("1")),
			stamped("range"), tx.ClearRange([]byte("range"), []byte("rangf")),
			tx.ClearRange([]byte("range2"), []byte("range3")), stamped("range2"),
			stamped("more"), tx.Atomic(txn.MutationAppendIfFits, []byte("more"), []byte("+")),
			tx.Atomic(txn.MutationAppendIfFits, []byte("less"), []byte("+")), stamped("less"),
		); err != nil {
			t.Fatal(err)
		}
	})
	stamp, err := tx.Versionstamp()
	if err != nil {
		t.Fatal(err)
	}
	suite.WantGet(t, db.Engine(), "cleared", "-")
	suite.WantGet(t, db.Engine(), "set", "1")
	suite.WantGet(t, db.Engine(), "range", "-")
	suite.WantGet(t, db.Engine(), "range2", complete("", stamp, ""))
	suite.WantGet(t, db.Engine(), "more", complete("", stamp, "+"))
	suite.WantGet(t, db.Engine(), "less", complete("", stamp, ""))
}

// testStampedKeys: stamps in keys, in order with what comes before and after.
func testStampedKeys(t *testing.T, db *txn.DB) {
	suite.Commit(t, db.Engine(), suite.Set("log/", "old"), suite.Set("log/\x00", "old"), suite.Set("log0", "old"))
	var tx *txn.Tx
	update(t, db, func(now *txn.Tx) {
		tx = now
		stamped := func(prefix, suffix, value string) error {
			return tx.SetVersionstampedKey(incomplete(prefix, suffix), []byte(value))
		}
		if err := errors.Join(
			tx.Set([]byte("before"), []byte("1")),
			tx.ClearRange([]byte("log/"), []byte("log0")),
			stamped("log/", "a", "first"), stamped("log/", "b", "second"), stamped("log/", "a", "third"),
			stamped("gone/", "", "x"), tx.ClearRange([]byte("gone/"), []byte("gone0")),
			tx.Set([]byte("before"), []byte("2")), tx.Atomic(txn.MutationAdd, []byte("n"), []byte{1}),
			tx.Set([]byte("gone/"), []byte("set")),
		); err != nil {
			t.Fatal(err)
		}
		suite.WantGet(t, tx, "before", "2")
		suite.WantGet(t, tx, "n", "\x01")
	})
	stamp, err := tx.Versionstamp()
	if err != nil {
		t.Fatal(err)
	}
	suite.WantScan(t, db.Engine(), kv.Range{}, fmt.Sprintf("before=2 gone/=set %s=third %s=second log0=old n=\x01",
		complete("log/", stamp, "a"), complete("log/", stamp, "b")))
	// They are writes that others can conflict with.
	tx = begin(t, db)
	do(t, tx, "scan log/ log0; set zout 1")
	update(t, db, func(tx *txn.Tx) {
		if err := tx.SetVersionstampedKey(incomplete("log/", ""), nil); err != nil {
			t.Fatal(err)
		}
	})
	wantConflict(t, db, tx.Commit(ctx), true)
}

// testStampErrors: offsets that make no sense, and reads of what is not known yet.
func testStampErrors(t *testing.T, db *txn.DB) {
	tx := begin(t, db)
	offset := func(n int, at uint32) []byte { return binary.LittleEndian.AppendUint32(make([]byte, n), at) }
	for name, b := range map[string][]byte{
		"nothing": nil, "no offset": make([]byte, 3), "only an offset": offset(0, 0), "too short": offset(9, 0),
		"overlapping the end": offset(20, 11), "beyond the end": offset(20, 20), "far beyond": offset(20, 1<<32-1),
	} {
		suite.WantErr(t, "key with "+name, tx.SetVersionstampedKey(b, nil), kv.ErrInvalid)
		suite.WantErr(t, "value with "+name, tx.SetVersionstampedValue([]byte("k"), b), kv.ErrInvalid)
	}
	if err := errors.Join(tx.SetVersionstampedKey(offset(10, 0), nil), tx.SetVersionstampedValue([]byte("k"), offset(20, 10))); err != nil {
		t.Errorf("at the ends: %v", err)
	}
	tx.Cancel()

	tx = begin(t, db)
	suite.Fill(t, db.Engine(), "a", "b", "log/", "log0")
	if err := errors.Join(
		tx.SetVersionstampedValue([]byte("b"), incomplete("", "")),
		tx.SetVersionstampedKey(incomplete("log/", "x"), nil),
	); err != nil {
		t.Fatal(err)
	}
	if err := tx.Atomic(txn.MutationAdd, []byte("b"), []byte{1}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []kv.Reader{tx, tx.Snapshot()} {
		_, err := r.Get(ctx, []byte("b"), nil)
		suite.WantErr(t, "Get of a stamped value", err, txn.ErrUnreadable)
		_, err = r.Get(ctx, []byte("log/1234567890x"), nil)
		suite.WantErr(t, "Get where a stamped key may be", err, txn.ErrUnreadable)
		suite.WantGet(t, r, "a", "A")
		suite.WantGet(t, r, "log/", "LOG/")
		suite.WantGet(t, r, "log0", "LOG0")
		for _, c := range []struct {
			rng kv.Range
			n   int
			err error
		}{
			{kv.Range{}, 1, txn.ErrUnreadable},
			{kv.Range{Limit: 1}, 1, nil},
			{kv.Range{Start: []byte("c")}, 1, txn.ErrUnreadable},
			{kv.Range{Start: []byte("c"), Limit: 1}, 1, nil},
			{kv.Range{Start: []byte("log/")}, 1, txn.ErrUnreadable},
			{kv.Range{Reverse: true}, 1, txn.ErrUnreadable},
			{kv.Range{Reverse: true, Limit: 1}, 1, nil},
			{kv.Range{End: []byte("log/\x00"), Reverse: true}, 1, txn.ErrUnreadable},
			{kv.Range{Start: []byte("log0")}, 1, nil},
		} {
			n, err := suite.ScanErr(t, r, ctx, c.rng)
			if n != c.n || !errors.Is(err, c.err) {
				t.Errorf("Scan(%s): %d entries, %v, want %d, %v", suite.Describe(c.rng), n, err, c.n, c.err)
			}
		}
	}
	tx.Cancel()
}

// testStampOrder: stamps are unique, and in the order of the commits: a transaction that reads
// what another wrote has the larger one.
func testStampOrder(t *testing.T, db *txn.DB) {
	const workers, each = 6, 20
	var mu sync.Mutex
	var all []txn.Stamp
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				var tx *txn.Tx
				var before []byte
				err := db.Update(ctx, func(now *txn.Tx) (err error) {
					tx = now
					before, err = tx.Get(ctx, []byte("chain"), nil)
					if errors.Is(err, kv.ErrNotFound) {
						err = nil
					}
					return errors.Join(err, tx.SetVersionstampedValue([]byte("chain"), incomplete("", "")))
				})
				stamp, serr := tx.Versionstamp()
				if err = errors.Join(err, serr); err != nil {
					t.Error(err)
					return
				}
				if bytes.Compare(before, stamp[:]) >= 0 {
					t.Errorf("stamp %x of a commit that has read %x", stamp, before)
				}
				mu.Lock()
				all = append(all, stamp)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.SortFunc(all, func(a, b txn.Stamp) int { return bytes.Compare(a[:], b[:]) })
	if n := len(slices.Compact(all)); n != workers*each {
		t.Errorf("%d different stamps of %d commits", n, workers*each)
	}
}
