package kvtest

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

// Benchmark measures an engine with entries of 4 KiB, the size of a page, that
// don't compress: reads, commits with either durability, commits side by side,
// scans, transactions. Compare figures of one run with each other, not with those of another
// machine or minute.
func Benchmark(b *testing.B, open func(t testing.TB) kv.Engine) {
	b.Run("Get", func(b *testing.B) { benchGet(b, open) })
	b.Run("GetMissing", func(b *testing.B) { benchGetMissing(b, open) })
	b.Run("Scan1000", func(b *testing.B) { benchScan(b, open) })
	b.Run("Snapshot", func(b *testing.B) { benchSnapshot(b, open) })
	for _, d := range []kv.Durability{kv.Applied, kv.Durable} {
		name := [...]string{"Durable", "Applied"}[d]
		for _, n := range []int{1, 16, 128} {
			b.Run(fmt.Sprintf("Commit%s%d", name, n), func(b *testing.B) { benchCommit(b, open, d, n) })
		}
		b.Run("Commit"+name+"Parallel", func(b *testing.B) { benchParallel(b, open, d) })
	}
	benchTransactions(b, open)
}

const (
	benchPage = 4096
	benchKeys = 10_000
)

// benchKey writes the i-th key: as long as those of an actor's pages are.
func benchKey(dst []byte, i uint64) []byte {
	dst = append(dst[:0], "actor/0123456789abcdef/data/"...)
	return binary.BigEndian.AppendUint64(dst, i)
}

// benchStore returns an engine with benchKeys pages.
func benchStore(b *testing.B, open Opener) kv.Engine {
	b.Helper()
	eng := start(b, open)
	var ops []kv.Op
	for i := range uint64(benchKeys) {
		ops = append(ops, kv.Set(benchKey(nil, i), pattern(benchPage, i)))
		if len(ops) == 100 {
			commit(b, eng, ops...)
			ops = ops[:0]
		}
	}
	return eng
}

func benchGet(b *testing.B, open Opener) {
	eng := benchStore(b, open)
	var key []byte
	dst := make([]byte, 0, benchPage)
	b.SetBytes(benchPage)
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		key = benchKey(key, i*7919%benchKeys)
		if _, err := eng.Get(ctx, key, dst); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func benchGetMissing(b *testing.B, open Opener) {
	eng := benchStore(b, open)
	var key []byte
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		key = append(benchKey(key, i*7919%benchKeys), 1)
		if _, err := eng.Get(ctx, key, nil); err != kv.ErrNotFound {
			b.Fatal(err)
		}
		i++
	}
}

func benchScan(b *testing.B, open Opener) {
	eng := benchStore(b, open)
	var key []byte
	b.SetBytes(1000 * benchPage)
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		key = benchKey(key, i*7919%(benchKeys-1000))
		n := 0
		for _, err := range eng.Scan(ctx, kv.Range{Start: key, Limit: 1000}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 1000 {
			b.Fatalf("scanned %d entries", n)
		}
		i++
	}
}

// benchSnapshot takes a snapshot after every commit, as a reader beside a writer
// does.
func benchSnapshot(b *testing.B, open Opener) {
	eng := benchStore(b, open)
	c := &kv.Commit{Ops: []kv.Op{kv.Set(benchKey(nil, 1), pattern(benchPage, 1))}, Durability: kv.Applied}
	b.ReportAllocs()
	for b.Loop() {
		if err := eng.Commit(ctx, c); err != nil {
			b.Fatal(err)
		}
		s, err := eng.Snapshot(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// benchPages returns a commit of n pages and a function that gives it the keys
// of the i-th round: overwrites, spread over the store.
func benchPages(n int, d kv.Durability) (*kv.Commit, func(i uint64)) {
	c := &kv.Commit{Durability: d}
	for i := range n {
		c.Ops = append(c.Ops, kv.Set(benchKey(nil, 0), pattern(benchPage, uint64(i))))
	}
	return c, func(i uint64) {
		for j := range c.Ops {
			c.Ops[j].Key = benchKey(c.Ops[j].Key, (i*7919+uint64(j))%benchKeys)
		}
	}
}

func benchCommit(b *testing.B, open Opener, d kv.Durability, n int) {
	eng := start(b, open)
	c, round := benchPages(n, d)
	c.Checks = []kv.Check{absent("fence")}
	b.SetBytes(int64(n * benchPage))
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		round(i)
		if err := eng.Commit(ctx, c); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// benchParallel has 16 goroutines commit one page each.
func benchParallel(b *testing.B, open Opener, d kv.Durability) {
	eng := start(b, open)
	var next atomic.Uint64
	b.SetBytes(benchPage)
	b.SetParallelism(8)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		c, round := benchPages(1, d)
		for pb.Next() {
			round(next.Add(1))
			if err := eng.Commit(ctx, c); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
