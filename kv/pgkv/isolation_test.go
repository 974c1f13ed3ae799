//go:build unix

package pgkv

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// BenchmarkIsolation measures what docs/postgres.md says of PostgreSQL's own level
// SERIALIZABLE: 8 connections, each with keys that no other one reads or writes, make the
// transactions of an actor, at the level that this package uses and at that one. aborts/op
// is how many had to be repeated, none of them for a reason of its own.
//
//	go test ./kv/pgkv -run '^$' -bench Isolation -benchtime 2000x
func BenchmarkIsolation(b *testing.B) {
	for _, rows := range []int{0, 250, 2000} { // of each
		for _, reads := range []bool{false, true} {
			for _, level := range []string{"read committed", "serializable"} {
				name := fmt.Sprintf("rows=%d/reads=%v/%s", rows, reads, level)
				b.Run(name, func(b *testing.B) { benchIsolation(b, rows, reads, level) })
			}
		}
	}
}

func benchIsolation(b *testing.B, rows int, reads bool, level string) {
	const workers = 8
	n := pgtest.Shared(b)
	db := openAt(b, n.URL("schema="+n.Schema()), nil)
	for w := range workers {
		ops := []kv.Op{set(fmt.Sprintf("%d/head", w), "0")}
		for i := range rows {
			ops = append(ops, kv.Set(fmt.Appendf(nil, "%d/%06d", w, i), make([]byte, 200)))
		}
		if err := db.Commit(ctx, &kv.Commit{Ops: ops, Durability: kv.Applied}); err != nil {
			b.Fatal(err)
		}
	}
	n.SQL(b, "analyze "+db.target.schema+".kv")
	var left, aborts atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for w := range workers {
		wg.Go(func() {
			c, err := db.connect(b)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.close()
			if _, err := c.pg.Prepare(ctx, "bench_begin", "begin isolation level "+level, nil); err != nil {
				b.Error(err)
				return
			}
			a := isolated{c: c, rnd: rand.New(rand.NewPCG(uint64(w), 1)), prefix: fmt.Sprint(w, "/"), rows: max(rows, 100), reads: reads}
			for left.Add(-1) >= 0 {
				again, err := a.transaction()
				aborts.Add(int64(again))
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(aborts.Load())/float64(b.N), "aborts/op")
}

// An isolated makes transactions on keys of its own.
type isolated struct {
	c      *conn
	rnd    *rand.Rand
	prefix string
	rows   int
	reads  bool
	head   int
}

func (a *isolated) key(i int) []byte { return fmt.Appendf(nil, "%s%06d", a.prefix, i) }

// transaction locks the head if it is as it was, writes it and a few rows, and reads a
// range before if asked to, as often as it takes.
func (a *isolated) transaction() (aborts int, err error) {
	for {
		err := a.try()
		if code(err) != codeSerialization {
			a.head++
			return aborts, err
		}
		aborts++
		if err := a.c.exec(ctx, a.c.sql.rollback); err != nil {
			return aborts, err
		}
	}
}

func (a *isolated) try() error {
	var p plan
	head := []byte(a.prefix + "head")
	c := kv.Commit{Checks: []kv.Check{{Key: head, Value: strconv.AppendInt(nil, int64(a.head), 10)}},
		Ops: []kv.Op{kv.Set(head, strconv.AppendInt(nil, int64(a.head+1), 10))}}
	for range 4 {
		c.Ops = append(c.Ops, kv.Set(a.key(a.rnd.IntN(a.rows)), make([]byte, 200)))
	}
	if err := p.make(&c); err != nil {
		return err
	}
	pl := a.c.pg.StartPipeline(ctx)
	f := flow{db: &DB{message: maxMessage}, c: a.c, p: pl}
	f.send(&statement{name: "bench_begin"})
	f.check(&p)
	if a.reads {
		i := a.rnd.IntN(a.rows)
		f.send(a.c.sql.page, a.key(i), a.key(i+20), int8Param(100), int8Param(1<<20))
	}
	f.change(&p, place{})
	f.send(a.c.sql.commit)
	if f.err == nil {
		f.err = pl.Sync()
	}
	f.answers()
	if err := pl.Close(); f.err == nil {
		f.err = err
	}
	return f.err
}

// BenchmarkGate measures what transactions cost others: 8 actors commit, alone and beside
// hosts that do nothing but transactions of two reads and a write. tx/op is how many of
// these there were for each commit.
func BenchmarkGate(b *testing.B) {
	for _, hosts := range []int{0, 1, 4} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			n := pgtest.Shared(b)
			url := n.URL("schema=" + n.Schema())
			db := openAt(b, url, nil)
			stop := make(chan struct{})
			var beside, actors sync.WaitGroup
			var done, left atomic.Int64
			for h := range hosts {
				txs, err := txn.New(openAt(b, url, nil), nil)
				if err != nil {
					b.Fatal(err)
				}
				beside.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						if err := txs.Update(ctx, func(tx *txn.Tx) error {
							for _, k := range []string{"a", "b"} {
								if _, err := tx.Get(ctx, []byte(fmt.Sprint("tx", h, k)), nil); err != nil && i > 1 {
									return err
								}
							}
							return tx.Set([]byte(fmt.Sprint("tx", h, [...]string{"a", "b"}[i%2])), []byte("x"))
						}); err != nil {
							b.Error(err)
							return
						}
						done.Add(1)
					}
				})
			}
			left.Store(int64(b.N))
			b.ResetTimer()
			for w := range 8 {
				actors.Go(func() {
					head, check := fmt.Sprint("head", w), absent(fmt.Sprint("head", w))
					for i := 0; left.Add(-1) >= 0; i++ {
						next := strconv.Itoa(i)
						if err := db.Commit(ctx, &kv.Commit{Checks: []kv.Check{check}, Ops: []kv.Op{set(head, next), set(head+"page", next)}}); err != nil {
							b.Error(err)
							return
						}
						check = is(head, next)
					}
				})
			}
			actors.Wait()
			b.StopTimer()
			close(stop)
			beside.Wait()
			b.ReportMetric(float64(done.Load())/float64(b.N), "tx/op")
		})
	}
}
