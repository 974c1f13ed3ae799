package actorstore_test

import (
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// caching opens an actor with n pages, of a store with a cache of so many bytes.
func caching(b *testing.B, eng kv.Engine, cacheBytes int64, n int) *actorstore.Actor {
	b.Helper()
	s, err := actorstore.Open(ctx, eng, &actorstore.Options{CacheBytes: cacheBytes, Limits: batch.Limits{Storage: 1 << 40}})
	must(b, err)
	b.Cleanup(func() { must(b, s.Close()) })
	a := openActor(b, s)
	var bt batch.Batch
	bt.Mode = batch.Ordered
	pages(&bt, make([]byte, 0, 16), make([]byte, 4096), n)
	bt.Mode = batch.Ordered
	must(b, a.Commit(ctx, &bt))
	return a
}

// BenchmarkCachedPage reads pages that memory has, and ones that it hasn't.
func BenchmarkCachedPage(b *testing.B) {
	for name, cacheBytes := range map[string]int64{"hit": 64 << 20, "miss": 100_000, "near": -1} {
		b.Run(name, func(b *testing.B) {
			a := caching(b, memkv.New(), cacheBytes, 1024)
			snap, err := a.PageSnapshot(ctx)
			must(b, err)
			defer func() { must(b, snap.Close()) }()
			key, dst := make([]byte, 0, 16), make([]byte, 0, 4096)
			i := uint32(0)
			b.ReportAllocs()
			for b.Loop() {
				i = (i + 1) % 1024
				if _, err := snap.Page(ctx, actorstore.LayoutGreenroom.AppendFileChunk(key, actorstore.FileMain, i), dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCachedPageParallel has 8 readers of the same few pages.
func BenchmarkCachedPageParallel(b *testing.B) {
	a := caching(b, memkv.New(), 64<<20, 16)
	var n atomic.Uint32
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		key, dst := make([]byte, 0, 16), make([]byte, 0, 4096)
		i := n.Add(1)
		for pb.Next() {
			i = (i + 1) % 16
			if _, err := a.Page(ctx, actorstore.LayoutGreenroom.AppendFileChunk(key, actorstore.FileMain, i), dst); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkSnapshotCommit is what a transaction of a database asks for: a snapshot for
// readers, and a commit of one page. lazy is how far engines do it, on near ones.
func BenchmarkSnapshotCommit(b *testing.B) {
	engines := map[string]func(b *testing.B) kv.Engine{
		"memkv": func(*testing.B) kv.Engine { return memkv.New() },
		"pebblekv": func(b *testing.B) kv.Engine {
			eng, err := pebblekv.Open(b.TempDir(), nil)
			must(b, err)
			b.Cleanup(func() { must(b, eng.Close()) })
			return eng
		},
	}
	for name, engine := range engines {
		for how, cacheBytes := range map[string]int64{"eager": -1, "lazy": 64 << 20} {
			b.Run(name+"/"+how, func(b *testing.B) {
				a := caching(b, engine(b), cacheBytes, 1024)
				key, page := make([]byte, 0, 16), make([]byte, 4096)
				var bt batch.Batch
				i := uint32(0)
				b.ReportAllocs()
				for b.Loop() {
					i = (i + 1) % 1024
					snap, err := a.PageSnapshot(ctx)
					must(b, err)
					bt.Reset()
					bt.PutPrior(actorstore.LayoutGreenroom.AppendFileChunk(key, actorstore.FileMain, i), page, batch.Stored(4096))
					must(b, a.Apply(ctx, &bt))
					must(b, snap.Close())
				}
			})
		}
	}
}
