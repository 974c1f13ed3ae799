package kvtest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// Benchmark measures an engine with entries of 4 KiB, the size of a page, that
// don't compress: reads, commits with either durability, commits side by side,
// scans. Compare figures of one run with each other, not with those of another
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
}

func benchGet(b *testing.B, open suite.Opener) {
	eng := suite.PageStore(b, open)
	var key []byte
	dst := make([]byte, 0, suite.PageBytes)
	b.SetBytes(suite.PageBytes)
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		key = suite.PageKey(key, i*7919%suite.Pages)
		if _, err := eng.Get(ctx, key, dst); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func benchGetMissing(b *testing.B, open suite.Opener) {
	eng := suite.PageStore(b, open)
	var key []byte
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		key = append(suite.PageKey(key, i*7919%suite.Pages), 1)
		if _, err := eng.Get(ctx, key, nil); err != kv.ErrNotFound {
			b.Fatal(err)
		}
		i++
	}
}

func benchScan(b *testing.B, open suite.Opener) {
	eng := suite.PageStore(b, open)
	var key []byte
	b.SetBytes(1000 * suite.PageBytes)
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		key = suite.PageKey(key, i*7919%(suite.Pages-1000))
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
func benchSnapshot(b *testing.B, open suite.Opener) {
	eng := suite.PageStore(b, open)
	c := &kv.Commit{Ops: []kv.Op{kv.Set(suite.PageKey(nil, 1), suite.Pattern(suite.PageBytes, 1))}, Durability: kv.Applied}
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

func benchCommit(b *testing.B, open suite.Opener, d kv.Durability, n int) {
	eng := suite.Start(b, open)
	c, round := suite.PageCommit(n, d)
	c.Checks = []kv.Check{suite.Absent("fence")}
	b.SetBytes(int64(n * suite.PageBytes))
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
func benchParallel(b *testing.B, open suite.Opener, d kv.Durability) {
	eng := suite.Start(b, open)
	var next atomic.Uint64
	b.SetBytes(suite.PageBytes)
	b.SetParallelism(8)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		c, round := suite.PageCommit(1, d)
		for pb.Next() {
			round(next.Add(1))
			if err := eng.Commit(ctx, c); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
