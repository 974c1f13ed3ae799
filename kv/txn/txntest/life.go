package txntest

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// testLimits: what is too large is refused at once, and leaves the transaction as
// it was; at the limit it isn't.
func testLimits(t *testing.T, db *txn.DB) {
	big := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	lim := db.Engine().Limits()
	bound := func(n, engine int) int {
		if engine > 0 {
			return min(n, engine)
		}
		return n
	}
	key, value := bound(10_000, lim.Key), bound(100_000, lim.Value)
	tx := begin(t, db)
	do(t, tx, "set a 1")
	for what, c := range map[string]struct {
		err, want error
	}{
		"a key":               {tx.Set(big(key+1), nil), txn.ErrKeyTooLarge},
		"a cleared key":       {tx.Clear(big(key + 1)), txn.ErrKeyTooLarge},
		"a range":             {tx.ClearRange(nil, big(key+2)), txn.ErrKeyTooLarge},
		"a value":             {tx.Set([]byte("v"), big(value+1)), txn.ErrValueTooLarge},
		"a parameter":         {tx.Atomic(txn.MutationAdd, []byte("v"), big(value+1)), txn.ErrValueTooLarge},
		"the empty key":       {tx.Set(nil, nil), kv.ErrInvalid},
		"the empty key, gone": {tx.Clear([]byte{}), kv.ErrInvalid},
		"a range's end":       {tx.ClearRange([]byte("a"), nil), kv.ErrInvalid},
	} {
		suite.WantErr(t, what, c.err, c.want)
		if c.want != kv.ErrInvalid {
			suite.WantErr(t, what, c.err, kv.ErrTooLarge)
		}
	}
	if err := errors.Join(tx.Set(big(key), big(value)), tx.ClearRange(nil, []byte("\x00"))); err != nil {
		t.Errorf("at the limits: %v", err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	suite.WantScan(t, db.Engine(), kv.Range{}, "a=1 "+string(big(key))+"="+string(big(value)))

	small := newDB(t, db.Engine(), &txn.Options{Limits: txn.Limits{Key: 10, Value: 20, Bytes: 100}})
	tx = begin(t, small)
	suite.WantErr(t, "a key", tx.Set(big(11), nil), txn.ErrKeyTooLarge)
	suite.WantErr(t, "a value", tx.Set(big(1), big(21)), txn.ErrValueTooLarge)
	for range 10 {
		if err := tx.Set([]byte("12345"), []byte("12345")); err != nil {
			t.Fatal(err)
		}
	}
	if tx.Size() != 100 {
		t.Errorf("ten writes of ten bytes: Size is %d", tx.Size())
	}
	suite.WantErr(t, "a byte more", tx.Clear([]byte("1")), txn.ErrTxTooLarge)
	if err := tx.Commit(ctx); err != nil {
		t.Errorf("a transaction at the limit: %v", err)
	}
	tx = begin(t, small)
	do(t, tx, "set a 1")
	for i := range 60 {
		look(t, tx, "get "+string(rune('A'+i)))
	}
	suite.WantErr(t, "Commit with too many conflict ranges", tx.Commit(ctx), txn.ErrTxTooLarge)
}

// testAge: a transaction that is too old reads and commits no more, and Update tries
// again. Blind writes have no age.
func testAge(t *testing.T, db *txn.DB) {
	var clock atomic.Int64
	now := func() time.Time { return time.Unix(0, clock.Load()) }
	pass := func(d time.Duration) { clock.Add(int64(d)) }
	pass(time.Hour)
	db = newDB(t, db.Engine(), &txn.Options{Now: now})
	suite.Fill(t, db.Engine(), "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r")
	blind := begin(t, db)
	do(t, blind, "set z 1")
	pass(time.Hour)
	tx := begin(t, db)
	do(t, tx, "get a; set z 1")
	pass(5 * time.Second)
	do(t, tx, "get a; scan a z") // not older than it may be
	pass(1)
	_, err := tx.Get(ctx, []byte("a"), nil)
	suite.WantErr(t, "Get", err, txn.ErrTooOld)
	_, err = suite.ScanErr(t, tx, ctx, kv.Range{})
	suite.WantErr(t, "Scan", err, txn.ErrTooOld)
	_, err = tx.GetKey(ctx, txn.FirstGreaterThan(nil), nil)
	suite.WantErr(t, "GetKey", err, txn.ErrTooOld)
	err = tx.Commit(ctx)
	suite.WantErr(t, "Commit", err, txn.ErrTooOld)
	if !txn.Retryable(err) {
		t.Error("too old is not retryable")
	}
	if err := blind.Commit(ctx); err != nil {
		t.Errorf("a blind write after an hour: %v", err)
	}
	n, last := 0, error(nil)
	tx = begin(t, db)
	for _, err := range tx.Scan(ctx, kv.Range{}) {
		if last = err; err == nil {
			n++
			pass(time.Second)
		}
	}
	suite.WantErr(t, "a slow scan", last, txn.ErrTooOld)
	if n == 0 || n > 18 {
		t.Errorf("a slow scan yielded %d entries", n)
	}
	attempts := 0
	err = db.Update(ctx, func(tx *txn.Tx) error {
		attempts++
		do(t, tx, "get a; set y 1")
		if attempts < 3 {
			pass(6 * time.Second)
		}
		return nil
	})
	if err != nil || attempts != 3 {
		t.Errorf("a closure that is slow twice: %v after %d attempts", err, attempts)
	}
	// What the engine keeps for a transaction that is too old it keeps no more.
	tx = begin(t, db)
	do(t, tx, "get a; set z 2")
	pass(time.Minute)
	suite.Commit(t, db.Engine(), suite.Set("q", "1"))
	forever := newDB(t, db.Engine(), &txn.Options{Now: now, MaxAge: -1})
	old := begin(t, forever)
	do(t, old, "get a; set z 3")
	pass(24 * time.Hour)
	do(t, old, "get b")
	if err := old.Commit(ctx); err != nil {
		t.Errorf("a transaction without an age: %v", err)
	}
	suite.WantErr(t, "Commit of the old one", tx.Commit(ctx), txn.ErrTooOld)
}

// testEnded: a transaction that is over says so, and does nothing.
func testEnded(t *testing.T, db *txn.DB) {
	use := func(tx *txn.Tx, want error) {
		t.Helper()
		_, err := tx.Get(ctx, []byte("a"), nil)
		suite.WantErr(t, "Get", err, want)
		_, err = tx.Snapshot().Get(ctx, []byte("a"), nil)
		suite.WantErr(t, "Get of Snapshot", err, want)
		_, err = suite.ScanErr(t, tx, ctx, kv.Range{})
		suite.WantErr(t, "Scan", err, want)
		_, err = tx.GetKey(ctx, txn.LastLessThan([]byte("a")), nil)
		suite.WantErr(t, "GetKey", err, want)
		suite.WantErr(t, "Set", tx.Set([]byte("a"), nil), want)
		suite.WantErr(t, "Clear", tx.Clear([]byte("a")), want)
		suite.WantErr(t, "ClearRange", tx.ClearRange([]byte("a"), []byte("b")), want)
		suite.WantErr(t, "Atomic", tx.Atomic(txn.MutationAdd, []byte("a"), nil), want)
		suite.WantErr(t, "AddReadConflictKey", tx.AddReadConflictKey([]byte("a")), want)
		suite.WantErr(t, "Commit", tx.Commit(ctx), want)
	}
	tx := begin(t, db)
	do(t, tx, "set a 1")
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	use(tx, txn.ErrUsedAfterCommit)
	tx.Cancel() // does nothing
	use(tx, txn.ErrUsedAfterCommit)

	tx = begin(t, db)
	do(t, tx, "get a; set a 2")
	tx.Cancel()
	tx.Cancel()
	use(tx, txn.ErrCanceled)

	var kept *txn.Tx
	err := db.Update(ctx, func(tx *txn.Tx) error {
		kept = tx
		suite.WantErr(t, "Commit in Update", tx.Commit(ctx), txn.ErrManaged)
		do(t, tx, "set a 3")
		tx.Cancel()
		return nil
	})
	suite.WantErr(t, "Update of a canceled transaction", err, txn.ErrCanceled)
	use(kept, txn.ErrCanceled)
	view(t, db, func(tx *txn.Tx) {
		kept = tx
		suite.WantErr(t, "Set in View", tx.Set([]byte("a"), nil), txn.ErrReadOnly)
		suite.WantErr(t, "Atomic in View", tx.Atomic(txn.MutationAdd, []byte("a"), nil), txn.ErrReadOnly)
		suite.WantErr(t, "ClearRange in View", tx.ClearRange([]byte("a"), []byte("b")), txn.ErrReadOnly)
	})
	use(kept, txn.ErrUsedAfterCommit)
}

// testEndedInLoop: a loop over a scan of a transaction that ends says so; what the
// loop has seen by then counts. And contexts that have ended.
func testEndedInLoop(t *testing.T, db *txn.DB) {
	suite.Fill(t, db.Engine(), "a", "b")
	// Ended from within a loop.
	tx := begin(t, db)
	do(t, tx, "set b 1")
	var last error
	for _, err := range tx.Scan(ctx, kv.Range{}) {
		if last = err; err == nil {
			tx.Cancel()
		}
	}
	suite.WantErr(t, "a loop that cancels", last, txn.ErrCanceled)
	// What a loop has seen when it commits counts.
	tx = begin(t, db)
	do(t, tx, "set zout 1")
	for e, err := range tx.Scan(ctx, kv.Range{}) {
		if errors.Is(err, txn.ErrUsedAfterCommit) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		suite.Commit(t, db.Engine(), suite.Set(string(e.Key), "other"))
		wantConflict(t, db, tx.Commit(ctx), true)
	}
	suite.WantGet(t, db.Engine(), "a", "other")

	gone, cancel := context.WithCancel(ctx)
	cancel()
	suite.WantErr(t, "Update with a cancelled context", db.Update(gone, func(*txn.Tx) error { t.Error("called"); return nil }), context.Canceled)
	_, err := db.Begin(gone)
	suite.WantErr(t, "Begin with a cancelled context", err, context.Canceled)
	tx = begin(t, db)
	_, err = tx.Get(gone, []byte("a"), nil)
	suite.WantErr(t, "Get with a cancelled context", err, context.Canceled)
	do(t, tx, "set never 1")
	suite.WantErr(t, "Commit with a cancelled context", tx.Commit(gone), context.Canceled)
	suite.WantGet(t, db.Engine(), "never", "-")
}

// testOwnership: what goes in is copied, what comes out is the caller's.
func testOwnership(t *testing.T, db *txn.DB) {
	suite.Commit(t, db.Engine(), suite.Set("base", "value"), suite.Set("n", "\x01"))
	b := func(s string) []byte { return []byte(s) }
	scribble := func(bs ...[]byte) {
		for _, b := range bs {
			for i := range b {
				b[i] = '!'
			}
		}
	}
	update(t, db, func(tx *txn.Tx) {
		key, value, start, end, param, n := b("key"), b("value"), b("x"), b("y"), b("\x02"), b("n")
		if err := errors.Join(tx.Set(key, value), tx.ClearRange(start, end), tx.Atomic(txn.MutationAdd, n, param)); err != nil {
			t.Fatal(err)
		}
		got, err := tx.Get(ctx, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := tx.Get(ctx, n, b("head"))
		if err != nil || string(sum) != "head\x03" {
			t.Errorf("Get into a buffer: %q, %v", sum, err)
		}
		scribble(key, value, start, end, param, n, got[:cap(got)], sum[:cap(sum)])
		suite.WantGet(t, tx, "key", "value")
		suite.WantGet(t, tx, "n", "\x03")
		room := append(make([]byte, 0, 64), "head:"...)
		for _, k := range []string{"key", "base"} {
			v, err := tx.Get(ctx, b(k), room)
			if err != nil || string(v) != "head:value" || &v[0] != &room[0] {
				t.Errorf("Get(%s) into a buffer with room: %q, %v", k, v, err)
			}
		}
		v, err := tx.Get(ctx, b("missing"), room)
		if !errors.Is(err, kv.ErrNotFound) || string(v) != "head:" {
			t.Errorf("Get of a missing key: %q, %v", v, err)
		}
	})
	suite.WantScan(t, db.Engine(), kv.Range{}, "base=value key=value n=\x03")
}

// testClosed: transactions of a closed engine end with its error.
func testClosed(t *testing.T, db *txn.DB) {
	suite.Fill(t, db.Engine(), "a")
	tx, late := begin(t, db), begin(t, db)
	do(t, late, "set a 1")
	do(t, tx, "set b 1")
	tx.Cancel()
	if err := db.Engine().Close(); err != nil {
		t.Fatal(err)
	}
	suite.WantErr(t, "Commit", late.Commit(ctx), kv.ErrClosed)
	suite.WantErr(t, "Update", db.Update(ctx, func(tx *txn.Tx) error { return tx.Set([]byte("a"), nil) }), kv.ErrClosed)
	suite.WantErr(t, "View", db.View(ctx, func(tx *txn.Tx) error {
		_, err := tx.Get(ctx, []byte("a"), nil)
		return err
	}), kv.ErrClosed)
}
