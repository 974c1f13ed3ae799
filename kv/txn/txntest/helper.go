package txntest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

var ctx = context.Background()

// start opens an engine and a DB on it. It skips the test when the engine doesn't
// offer transactions with these capabilities.
func start(t testing.TB, open suite.Opener, caps txn.Caps, opts *txn.Options) *txn.DB {
	t.Helper()
	eng := suite.Start(t, open)
	tr := txn.TransactorOf(eng)
	if tr == nil || !tr.TxCaps().Has(caps) {
		t.Skip("the engine doesn't offer this")
	}
	return newDB(t, eng, opts)
}

// newDB returns a DB whose transactions don't become too old on a machine that holds the
// test up for seconds, unless opts have a clock of their own.
func newDB(t testing.TB, eng kv.Engine, opts *txn.Options) *txn.DB {
	t.Helper()
	o := txn.Options{}
	if opts != nil {
		o = *opts
	}
	if o.Now == nil && o.MaxAge == 0 {
		o.MaxAge = time.Hour
	}
	db, err := txn.New(eng, &o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// caps are what the engine of db offers.
func caps(db *txn.DB) txn.Caps { return txn.TransactorOf(db.Engine()).TxCaps() }

// exact reports whether the engine finds no conflicts but those of the rule.
func exact(db *txn.DB) bool { return caps(db).Has(txn.Exact) }

// update runs fn in a transaction that must succeed.
func update(t testing.TB, db *txn.DB, fn func(tx *txn.Tx)) {
	t.Helper()
	if err := db.Update(ctx, func(tx *txn.Tx) error { fn(tx); return nil }); err != nil {
		t.Fatalf("Update: %v", err)
	}
}

// view is update for reading.
func view(t testing.TB, db *txn.DB, fn func(tx *txn.Tx)) {
	t.Helper()
	if err := db.View(ctx, func(tx *txn.Tx) error { fn(tx); return nil }); err != nil {
		t.Fatalf("View: %v", err)
	}
}

// begin begins a transaction that is over when the test is.
func begin(t testing.TB, db *txn.DB) *txn.Tx {
	t.Helper()
	tx, err := db.Begin(ctx)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	t.Cleanup(tx.Cancel)
	return tx
}

// play empties the store and runs a script on it (suite.Replay).
func play(t testing.TB, db *txn.DB, lines ...string) {
	t.Helper()
	suite.Commit(t, db.Engine(), kv.ClearRange(nil, []byte("\xff\xff")))
	if err := suite.Replay(db.Engine(), strings.Join(lines, "\n")); err != nil {
		t.Error(err)
	}
}

// do runs the steps of a transaction (suite.Step). What they read is thrown away.
func do(t testing.TB, tx *txn.Tx, steps string) {
	t.Helper()
	if err := try(tx, tx, steps); err != nil {
		t.Fatalf("%s: %v", steps, err)
	}
}

// look is do for reads of any reader.
func look(t testing.TB, r kv.Reader, steps string) {
	t.Helper()
	if err := try(nil, r, steps); err != nil {
		t.Fatalf("%s: %v", steps, err)
	}
}

func try(tx *txn.Tx, r kv.Reader, text string) error {
	steps, err := suite.Parse(text)
	for _, s := range steps {
		if _, err := s.Do(ctx, tx, r); err != nil {
			return err
		}
	}
	return err
}

// drain reads a range, or its first n entries.
func drain(r kv.Reader, rng kv.Range, n int) error {
	for _, err := range r.Scan(ctx, rng) {
		if err != nil {
			return err
		}
		if n--; n == 0 {
			break
		}
	}
	return nil
}
