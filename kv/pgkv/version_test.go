//go:build unix

package pgkv

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// versionOfTx runs a transaction and returns its version.
func versionOfTx(t testing.TB, db *txn.DB, fn func(tx *txn.Tx) error) uint64 {
	t.Helper()
	tx, err := db.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Cancel()
	if err := errors.Join(fn(tx), tx.Set([]byte("a"), []byte("1"))); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	stamp, err := tx.Versionstamp()
	if err != nil {
		t.Fatal(err)
	}
	return binary.BigEndian.Uint64(stamp[:])
}

func blind(*txn.Tx) error { return nil }

func reads(tx *txn.Tx) error {
	if _, err := tx.Get(ctx, []byte("a"), nil); !errors.Is(err, kv.ErrNotFound) {
		return err
	}
	return nil
}

// TestVersionsAfterCrash: versions after a crash are above all that may have been given
// out before it, of which nothing need be left; also when the next crash comes before
// anything else is on stable storage.
func TestVersionsAfterCrash(t *testing.T) {
	t.Parallel()
	n := pgtest.Start(t)
	schema := n.Schema()
	open := func(opts *Options) *txn.DB {
		txs, err := txn.New(openAt(t, n.URL(patient+"&schema="+schema), opts), &txn.Options{MaxAge: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return txs
	}
	// One doesn't try again.
	txs := [2]*txn.DB{open(nil), open(&Options{RetryFor: -1})}
	if got := versionOfTx(t, txs[0], blind); got != 1 {
		t.Errorf("the first version is %d", got)
	}
	base := uint64(0)
	crashes := []struct {
		fn    func(*txn.Tx) error
		first int // the host that goes on first
	}{{blind, 0}, {reads, 1}, {reads, 0}, {blind, 1}}
	for i, c := range crashes[:testkit.Pick(2, 2, 4)] {
		n.Kill(t)
		n.Start(t)
		if got := n.SQL(t, `select count(*) from `+schema+`.counter`); got != "0" {
			t.Fatalf("a server that crashed knows its last version: %s rows", got)
		}
		base += versionGap
		for step := range uint64(3) {
			// What breaks with the server is for others to test.
			db := txs[(c.first+int(step))%2]
			db.Engine().(*DB).writes.drop(time.Now().Add(time.Hour))
			db.Engine().(*DB).pins.drop(time.Now().Add(time.Hour))
			if got := versionOfTx(t, db, c.fn); got != base+1+step {
				t.Errorf("after crash %d: got version %d, want %d", i+1, got, base+1+step)
			}
		}
	}
}

// TestVersionsRunOut: when all that were reserved are given out others are reserved, and
// no transaction notices.
func TestVersionsRunOut(t *testing.T) {
	for name, fn := range map[string]func(*txn.Tx) error{"blind": blind, "reads": reads} {
		t.Run(name, func(t *testing.T) {
			hosts, txs := openTx(t)
			schema := hosts[0].target.schema
			n := pgtest.Shared(t)
			n.SQL(t, `update `+schema+`.counter set number = most - 1`)
			for i, want := range []uint64{versionGap, versionGap + 1, versionGap + 2} {
				if got := versionOfTx(t, txs[i%2], fn); got != want {
					t.Errorf("transaction %d: got version %d, want %d", i, got, want)
				}
			}
			if got := n.SQL(t, `select number / 1048576 from `+schema+`.version`); got != "1" {
				t.Errorf("%s gaps are reserved", got)
			}
		})
	}
}

// TestVersionsOfTwo: two hosts find that no version is reserved, and one of them hangs
// before it makes the counter, until there was another crash: what it knows is too old.
func TestVersionsOfTwo(t *testing.T) {
	hosts, txs := openTx(t)
	n, schema := pgtest.Shared(t), hosts[0].target.schema
	empty := func() { n.SQL(t, `delete from `+schema+`.counter`) } // as a crash does
	empty()
	n.SQL(t, `update `+schema+`.version set number = number + 1048576`) // the one that hangs
	if got := versionOfTx(t, txs[0], reads); got != 2*versionGap+1 {
		t.Errorf("got version %d", got)
	}
	empty()
	c, err := hosts[1].connect(t)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.prepare(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.exec(ctx, c.sql.reserve, int8Param(versionGap)); err != nil {
		t.Fatal(err)
	}
	if got := n.SQL(t, `select count(*) from `+schema+`.counter`); got != "0" {
		t.Error("the counter begins with versions that were given out")
	}
	if got := versionOfTx(t, txs[1], blind); got != 3*versionGap+1 {
		t.Errorf("got version %d", got)
	}
}
