package txntest

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// Benchmark measures transactions: one that reads a page and writes one, alone
// and from 8 goroutines, one that only reads, one that reads what was just written, and
// the engine's own commits beside an open transaction.
func Benchmark(b *testing.B, open func(t testing.TB) kv.Engine) {
	b.Run("Update", func(b *testing.B) {
		db := benchTx(b, open)
		var i uint64
		b.ReportAllocs()
		for b.Loop() {
			if err := readWrite(db, i*7919%suite.Pages); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
	b.Run("UpdateParallel8", func(b *testing.B) {
		db := benchTx(b, open)
		var next atomic.Uint64
		b.SetParallelism(max(1, 8/runtime.GOMAXPROCS(0)))
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := readWrite(db, next.Add(1)*7919%suite.Pages); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
	b.Run("View", func(b *testing.B) {
		db := benchTx(b, open)
		var i uint64
		b.ReportAllocs()
		for b.Loop() {
			key := suite.PageKey(nil, i*7919%suite.Pages)
			if err := db.View(ctx, func(tx *txn.Tx) error { _, err := tx.Get(ctx, key, nil); return err }); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
	b.Run("TxScan1000", func(b *testing.B) { benchTxScan(b, open) })
	b.Run("CommitBesideTx", func(b *testing.B) {
		db := benchTx(b, open)
		now := time.Now()
		old := newDB(b, db.Engine(), &txn.Options{Now: func() time.Time { return now }}) // never too old
		do(b, begin(b, old), "get pin")
		c, round := suite.PageCommit(1, kv.Applied)
		b.ReportAllocs()
		var i uint64
		for b.Loop() {
			round(i)
			if err := db.Engine().Commit(ctx, c); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
}

// benchTx returns a DB with suite.Pages pages.
func benchTx(b *testing.B, open suite.Opener) *txn.DB {
	b.Helper()
	eng := suite.PageStore(b, open)
	if txn.TransactorOf(eng) == nil {
		b.Skip("the engine has no transactions")
	}
	return newDB(b, eng, nil)
}

// readWrite reads one page and writes another.
func readWrite(db *txn.DB, i uint64) error {
	key, out := suite.PageKey(nil, i), suite.PageKey(nil, (i+1)%suite.Pages)
	return db.Update(ctx, func(tx *txn.Tx) error {
		v, err := tx.Get(ctx, key, nil)
		if err != nil {
			return err
		}
		return tx.Set(out, v)
	})
}

// benchTxScan scans with 100 own writes among what is there.
func benchTxScan(b *testing.B, open suite.Opener) {
	db := benchTx(b, open)
	tx := begin(b, newDB(b, db.Engine(), &txn.Options{MaxAge: -1}))
	for i := range uint64(100) {
		if err := tx.Set(suite.PageKey(nil, 10*i), []byte("own")); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range tx.Scan(ctx, kv.Range{Limit: 1000}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 1000 {
			b.Fatalf("scanned %d entries", n)
		}
	}
}
