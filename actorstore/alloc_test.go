package actorstore_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A sink accepts commits and forgets them: what is left is what this package
// allocates.
type sink struct {
	kv.Engine
	forget bool
}

func (s *sink) Commit(ctx context.Context, c *kv.Commit) error {
	if !s.forget {
		return s.Engine.Commit(ctx, c)
	}
	if c.OnApply != nil {
		c.OnApply()
	}
	return nil
}

// pages stages n pages and the file's metadata.
func pages(b *batch.Batch, key, page []byte, n int) {
	b.Reset()
	for i := range n {
		b.PutPrior(actorstore.LayoutGreenroom.AppendFileChunk(key, actorstore.FileMain, uint32(i)), page, batch.Absent)
	}
	b.Final().PutPrior(actorstore.LayoutGreenroom.AppendFileMeta(key, actorstore.FileMain), page[:10], batch.Absent)
}

func TestCommitAllocates(t *testing.T) {
	eng := &sink{Engine: memkv.New()}
	a := openActor(t, openStore(t, eng, batch.Limits{}))
	must(t, a.Put(ctx, user("k"), nil))
	eng.forget = true
	key, page := make([]byte, 0, 16), make([]byte, 4096)
	shuffled := rand.New(rand.NewPCG(1, 1)).Perm(100)
	var b batch.Batch
	stages := map[string]func(n int){
		"pages": func(n int) { pages(&b, key, page, n) },
		"pages out of order, and a known range": func(n int) {
			b.Reset()
			for _, i := range shuffled[:n] {
				b.PutPrior(actorstore.LayoutGreenroom.AppendFileChunk(key, actorstore.FileMain, uint32(i)), page, batch.Absent)
			}
			start := actorstore.LayoutGreenroom.AppendFileMeta(key, actorstore.FileJournal)
			b.DeleteRangePrior(start, append(start, 0), batch.Freed(0))
		},
		"ordered": func(n int) { pages(&b, key, page, n); b.Mode = batch.Ordered },
	}
	for name, stage := range stages {
		commit := func(n int) func() {
			return func() {
				stage(n)
				must(t, a.Commit(ctx, &b))
			}
		}
		commit(100)() // the first of its size makes room
		few, many := testkit.FewestAllocs(commit(10)), testkit.FewestAllocs(commit(100))
		if few != 0 || many != 0 {
			t.Errorf("%s: 10 of them allocate %v times, 100 %v times, want never", name, few, many)
		}
	}
}

func TestPageAllocates(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector makes sync.Pool forget things")
	}
	a := openActor(t, openStore(t, memkv.New(), batch.Limits{}))
	key, dst := actorstore.LayoutGreenroom.AppendFileChunk(nil, actorstore.FileMain, 0), make([]byte, 0, 4096)
	must(t, a.Put(ctx, key, make([]byte, 4096)))
	snap, err := a.Snapshot(ctx)
	must(t, err)
	for name, r := range map[string]actorstore.Reader{"actor": a, "snapshot": snap} {
		if n := testkit.FewestAllocs(func() {
			if _, err := r.Page(ctx, key, dst); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: a page allocates %v times", name, n)
		}
		if n := testkit.FewestAllocs(func() {
			if _, err := r.Page(ctx, key[:3], dst); err != actorstore.ErrNotFound {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: a missing page allocates %v times", name, n)
		}
	}
	must(t, snap.Close())
}

func BenchmarkCommit(b *testing.B) {
	for _, c := range []struct {
		name   string
		before int // pages of a commit before
		n      int
	}{{"1 page", 0, 1}, {"100 pages", 0, 100}, {"1 page after 3,000", 3000, 1}} {
		b.Run(c.name, func(b *testing.B) {
			n := c.n
			eng := &sink{Engine: memkv.New()}
			a := openActor(b, openStore(b, eng, batch.Limits{Storage: 1 << 60}))
			must(b, a.Put(ctx, user("k"), nil))
			eng.forget = true
			key, page := make([]byte, 0, 16), make([]byte, 4096)
			var bt batch.Batch
			pages(&bt, key, page, c.before)
			must(b, a.Commit(ctx, &bt))
			b.ReportAllocs()
			for b.Loop() {
				pages(&bt, key, page, n)
				must(b, a.Commit(ctx, &bt))
			}
		})
	}
}

func BenchmarkPage(b *testing.B) {
	a := openActor(b, openStore(b, memkv.New(), batch.Limits{}))
	key, dst := actorstore.LayoutGreenroom.AppendFileChunk(nil, actorstore.FileMain, 0), make([]byte, 0, 4096)
	must(b, a.Put(ctx, key, make([]byte, 4096)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Page(ctx, key, dst); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPutAllocates: a write by itself takes its memory from the one before.
func TestPutAllocates(t *testing.T) {
	if testkit.Race {
		t.Skip("sync.Pool forgets at random under the race detector")
	}
	eng := &sink{Engine: memkv.New()}
	a := openActor(t, openStore(t, eng, batch.Limits{}))
	u, key, value := a.User(), []byte("k"), make([]byte, 100)
	must(t, u.Put(ctx, key, value))
	eng.forget = true
	for name, write := range map[string]func() error{
		"put":    func() error { return u.Put(ctx, key, value) },
		"delete": func() error { return u.Delete(ctx, key) },
	} {
		if n := testkit.FewestAllocs(func() { must(t, write()) }); n != 0 {
			t.Errorf("a %s allocates %v times", name, n)
		}
	}
}
