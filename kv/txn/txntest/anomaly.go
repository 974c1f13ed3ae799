package txntest

import (
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// oneFails checks that of two transactions, each of which makes the other impossible,
// one at most has committed, and returns how many did.
func oneFails(t *testing.T, errs ...error) (committed int) {
	t.Helper()
	for _, err := range errs {
		switch {
		case err == nil:
			committed++
		case !errors.Is(err, kv.ErrConflict):
			t.Errorf("Commit: got error %v, want %v", err, kv.ErrConflict)
		}
	}
	if committed == len(errs) {
		t.Error("all of the transactions committed, and there is no order in which they could have run")
	}
	if committed == 0 {
		t.Error("none of the transactions committed")
	}
	return committed
}

// read returns a value as a number; a missing one is 0.
func read(t testing.TB, r kv.Reader, key string) int {
	t.Helper()
	v, err := r.Get(ctx, []byte(key), nil)
	if errors.Is(err, kv.ErrNotFound) {
		return 0
	}
	n, nerr := strconv.Atoi(string(v))
	if err = errors.Join(err, nerr); err != nil {
		t.Fatalf("Get(%s): %v", key, err)
	}
	return n
}

func write(t testing.TB, tx *txn.Tx, key string, n int) {
	t.Helper()
	if err := tx.Set([]byte(key), []byte(strconv.Itoa(n))); err != nil {
		t.Fatal(err)
	}
}

// testLostUpdate: two add to what they have read.
func testLostUpdate(t *testing.T, db *txn.DB) {
	suite.Commit(t, db.Engine(), suite.Set("n", "5"))
	a, b := begin(t, db), begin(t, db)
	write(t, a, "n", read(t, a, "n")+1)
	write(t, b, "n", read(t, b, "n")+1)
	n := oneFails(t, a.Commit(ctx), b.Commit(ctx))
	suite.WantGet(t, db.Engine(), "n", strconv.Itoa(5+n))
}

// testWriteSkew: two read both keys, and each writes the other one. Reads that don't
// count allow it, on an engine where that is so.
func testWriteSkew(t *testing.T, db *txn.DB) {
	run := func(reader func(tx *txn.Tx) kv.Reader) (error, error) {
		suite.Commit(t, db.Engine(), suite.Set("a", "1"), suite.Set("b", "1"))
		x, y := begin(t, db), begin(t, db)
		xs := read(t, reader(x), "a") + read(t, reader(x), "b")
		ys := read(t, reader(y), "a") + read(t, reader(y), "b")
		write(t, x, "a", 1-xs)
		write(t, y, "b", 1-ys)
		return x.Commit(ctx), y.Commit(ctx)
	}
	err, err2 := run(func(tx *txn.Tx) kv.Reader { return tx })
	oneFails(t, err, err2)
	err, err2 = run(func(tx *txn.Tx) kv.Reader { return tx.Snapshot() })
	if exact(db) && (err != nil || err2 != nil) {
		t.Errorf("with reads that don't count: %v, %v", err, err2)
	}
}

// testPhantom: two count what is there, and each adds to it: by a scan, a selector
// for a gap, and missing keys.
func testPhantom(t *testing.T, db *txn.DB) {
	for name, count := range map[string]func(tx *txn.Tx) error{
		"scan": func(tx *txn.Tx) error { return drain(tx, suite.Between("p", "q"), 0) },
		"reverse scan": func(tx *txn.Tx) error {
			return drain(tx, kv.Range{Start: []byte("p"), End: []byte("q"), Reverse: true}, 0)
		},
		"selector": func(tx *txn.Tx) error {
			_, err := tx.GetKey(ctx, txn.FirstGreaterOrEqual([]byte("p")), nil)
			return err
		},
		"missing keys": func(tx *txn.Tx) error {
			return errors.Join(try(tx, tx, "get p1; get p2"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			reset(t, db)
			suite.Commit(t, db.Engine(), suite.Set("z", "end"))
			x, y := begin(t, db), begin(t, db)
			if err := errors.Join(count(x), count(y)); err != nil {
				t.Fatal(err)
			}
			write(t, x, "p1", 1)
			write(t, y, "p2", 1)
			oneFails(t, x.Commit(ctx), y.Commit(ctx))
		})
	}
}

// testReadOnlyAnomaly: a deposit, and a withdrawal that pays a fee because it hasn't
// seen the deposit, can be put in an order; not with a report between them that has
// seen the deposit and not the withdrawal. Fekete, O'Neil, O'Neil: A Read-Only
// Transaction Anomaly Under Snapshot Isolation, 2004.
func testReadOnlyAnomaly(t *testing.T, db *txn.DB) {
	suite.Commit(t, db.Engine(), suite.Set("checking", "0"), suite.Set("saving", "0"))
	withdraw, deposit := begin(t, db), begin(t, db)
	total := read(t, withdraw, "checking") + read(t, withdraw, "saving")
	write(t, deposit, "saving", read(t, deposit, "saving")+20)
	if err := deposit.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	report := begin(t, db)
	checking, saving := read(t, report, "checking"), read(t, report, "saving")
	rerr := report.Commit(ctx)
	fee := 0
	if total < 10 {
		fee = 1
	}
	write(t, withdraw, "checking", total-10-fee)
	werr := withdraw.Commit(ctx)
	if rerr == nil && checking == 0 && saving == 20 && werr == nil {
		t.Error("the withdrawal paid the fee after the report had seen enough money")
	}
	for _, err := range []error{rerr, werr} {
		if err != nil && !errors.Is(err, kv.ErrConflict) {
			t.Error(err)
		}
	}
}

// testCounter: many goroutines add to one counter by reading and writing it, and no
// addition is lost, also not by one that began while another was being committed.
// Between two of them money moves between accounts, whose sum never changes, neither
// for transactions nor for snapshots.
func testCounter(t *testing.T, db *txn.DB) {
	const workers, each, accounts = 8, 15, 4
	var ops []kv.Op
	for i := range accounts {
		ops = append(ops, suite.Set("account"+strconv.Itoa(i), "100"))
	}
	suite.Commit(t, db.Engine(), append(ops, suite.Set("n", "0"))...)
	sum := func(t testing.TB, r kv.Reader) (n int) {
		for i := range accounts {
			n += read(t, r, "account"+strconv.Itoa(i))
		}
		return n
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				err := db.Update(ctx, func(tx *txn.Tx) error {
					v, err := tx.Get(ctx, []byte("n"), nil)
					if err != nil {
						return err
					}
					n, err := strconv.Atoi(string(v))
					return errors.Join(err, tx.Set([]byte("n"), []byte(strconv.Itoa(n+1))))
				})
				if err == nil {
					err = transfer(db, "account"+strconv.Itoa((w+i)%accounts), "account"+strconv.Itoa((w+2*i+1)%accounts))
				}
				if err == nil {
					err = db.View(ctx, func(tx *txn.Tx) error {
						if n := sum(t, tx); n != 100*accounts {
							t.Errorf("all accounts together have %d", n)
						}
						return nil
					})
				}
				if err != nil {
					t.Errorf("worker %d: %v", w, err)
					return
				}
			}
		})
	}
	wg.Wait()
	suite.WantGet(t, db.Engine(), "n", strconv.Itoa(workers*each))
	if n := sum(t, db.Engine()); n != 100*accounts {
		t.Errorf("all accounts together have %d in the end", n)
	}
}

// transfer moves 1 between accounts.
func transfer(db *txn.DB, from, to string) error {
	return db.Update(ctx, func(tx *txn.Tx) error {
		for key, by := range map[string]int{from: -1, to: 1} {
			if from == to {
				by = 0
			}
			v, err := tx.Get(ctx, []byte(key), nil)
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(string(v))
			if err != nil {
				return err
			}
			if err := tx.Set([]byte(key), []byte(strconv.Itoa(n+by))); err != nil {
				return err
			}
		}
		return nil
	})
}
