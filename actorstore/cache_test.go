package actorstore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// chunk is the key of a page.
// TestCacheScan: a scan that is much larger than the cache evicts nothing that is in
// use, of another actor in this case.
func TestCacheScan(t *testing.T) {
	for _, ahead := range []int{0, 64} {
		t.Run(fmt.Sprint("ahead=", ahead), func(t *testing.T) {
			const hot, pages = 100, 5000
			s, eng := openFar(t, 2<<20)
			a := openActor(t, s)
			writePages(t, a, hot)
			b, err := s.Actor(ctx, actorstore.NewID(), nil)
			must(t, err)
			writePages(t, b, pages)
			for range 4 {
				for i := range hot {
					readPage(t, a, i)
				}
			}
			snap, err := b.PageSnapshot(ctx)
			must(t, err)
			readCount(eng)
			for i := range pages {
				if ahead > 0 && i%ahead == 0 {
					n, err := snap.Prefetch(ctx, chunk(i), nil, ahead)
					if want := min(ahead, pages-i); n != want || err != nil {
						t.Fatalf("prefetch at %d: %d, %v, want %d", i, n, err, want)
					}
				}
				readPage(t, snap, i)
			}
			must(t, snap.Close())
			// The last of what was written may be there yet.
			want := int64(pages)
			if ahead > 0 {
				want = (pages + int64(ahead) - 1) / int64(ahead)
			}
			if n := readCount(eng); n > want || n < want*9/10 {
				t.Errorf("the scan took %d reads, want about %d", n, want)
			}
			for i := range hot {
				readPage(t, a, i)
			}
			if n := readCount(eng); n > 0 {
				t.Errorf("%d of %d pages in use were evicted", n, hot)
			}
			must(t, b.Close())
		})
	}
}

// TestCacheGhost: what comes back soon after it was dropped is in use, though it was used
// once only each time.
func TestCacheGhost(t *testing.T) {
	s, eng := openFar(t, 1<<20)
	a := openActor(t, s)
	writePages(t, a, 2000)
	for i := range 300 { // more than there is room for
		readPage(t, a, i)
	}
	for i := range 20 {
		readPage(t, a, i)
	}
	for i := range 1000 {
		readPage(t, a, 1000+i)
	}
	readCount(eng)
	for i := range 20 {
		readPage(t, a, i)
	}
	if n := readCount(eng); n > 0 {
		t.Errorf("%d of 20 pages were evicted by a scan", n)
	}
}

// TestCacheHit: what was written or read isn't read again, nor that there is nothing.
func TestCacheHit(t *testing.T) {
	s, eng := openFar(t, 0)
	a := openActor(t, s)
	if !a.Caches() {
		t.Fatal("a store on a far engine has no cache")
	}
	writePages(t, a, 3)
	must(t, a.Put(ctx, user("empty"), nil))
	must(t, a.Put(ctx, user("large"), make([]byte, layout.RowSize+1)))
	must(t, a.Put(ctx, user("row"), make([]byte, layout.RowSize)))
	must(t, a.Delete(ctx, chunk(1)))
	readCount(eng)
	for _, tt := range []struct {
		key            []byte
		page, get      int   // length, or -1
		reads, rereads int64 // of the first time, and the second
	}{
		{chunk(0), 4096, 4096, 0, 0},
		{chunk(1), -1, -1, 0, 0},
		{chunk(7), -1, -1, 2, 0}, // Page can't tell it from an empty value
		{user("empty"), -1, 0, 0, 0},
		{user("row"), layout.RowSize, layout.RowSize, 0, 0},
		{user("large"), layout.RowSize, layout.RowSize + 1, 2, 1}, // larger values aren't kept
		{user("missing"), -1, -1, 2, 0},
	} {
		for _, want := range []int64{tt.reads, tt.rereads} {
			page, err := a.Page(ctx, tt.key, nil)
			if n := lengthOf(page, err); n != tt.page {
				t.Errorf("%s: page of %d bytes, %v, want %d", actorstore.Describe(tt.key), n, err, tt.page)
			}
			value, err := a.Get(ctx, tt.key, nil)
			if n := lengthOf(value, err); n != tt.get {
				t.Errorf("%s: get %d bytes, %v, want %d", actorstore.Describe(tt.key), n, err, tt.get)
			}
			if n := readCount(eng); n != want {
				t.Errorf("%s: %d reads, want %d", actorstore.Describe(tt.key), n, want)
			}
		}
	}
}

func lengthOf(value []byte, err error) int {
	if err != nil {
		return -1
	}
	return len(value)
}

func TestCacheHitAllocates(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector makes sync.Pool forget things")
	}
	for what, open := range map[string]func(testing.TB, int64) (*actorstore.Store, *faultkv.Engine){"far": openFar, "near": openNear} {
		s, _ := open(t, 0)
		a := openActor(t, s)
		writePages(t, a, 1)
		snap, err := a.PageSnapshot(ctx)
		must(t, err)
		key, dst := chunk(0), make([]byte, 0, 4096)
		for name, r := range map[string]actorstore.Reader{"actor": a, "snapshot": snap} {
			for range 2 {
				readPage(t, r, 0)
			}
			if n := testkit.FewestAllocs(func() {
				if _, err := r.Page(ctx, key, dst); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%s, %s: a hit allocates %v times", what, name, n)
			}
		}
		must(t, snap.Close())
	}
}

// TestCacheOptions: there is one unless it is refused, of the one kind or the other.
func TestCacheOptions(t *testing.T) {
	for _, tt := range []struct {
		eng   kv.Engine
		bytes int64
		want  bool
	}{
		{memkv.New(), 0, true}, {memkv.New(), 1 << 20, true}, {memkv.New(), -1, false},
		{engines.Far(memkv.New()), 0, true}, {engines.Far(memkv.New()), 1 << 20, true}, {engines.Far(memkv.New()), -1, false},
	} {
		eng := faultkv.New(tt.eng)
		s, err := actorstore.Open(ctx, eng, &actorstore.Options{CacheBytes: tt.bytes})
		must(t, err)
		a := openActor(t, s)
		writePages(t, a, 1)
		for range 2 {
			readPage(t, a, 0)
		}
		readCount(eng)
		readPage(t, a, 0)
		if got := readCount(eng) == 0; got != tt.want {
			t.Errorf("%T, %d bytes: caching is %v", tt.eng, tt.bytes, got)
		}
		if a.Caches() != (tt.eng.Limits().Far && tt.want) {
			t.Errorf("%T, %d bytes: reading ahead pays: %v", tt.eng, tt.bytes, a.Caches())
		}
		must(t, errors.Join(a.Close(), s.Close()))
	}
}

// TestCacheReopen: what is kept survives a handle, unless the actor was another's
// meanwhile, or that isn't known.
func TestCacheReopen(t *testing.T) {
	s, eng := openFar(t, 0)
	other := openStore(t, eng, batch.Limits{})
	for _, tt := range []struct {
		what  string
		do    func(a *actorstore.Actor) // before the handle is closed
		then  func()                    // after
		reads int64
	}{
		{"nothing", func(*actorstore.Actor) {}, func() {}, 0},
		{"another owner", func(*actorstore.Actor) {}, func() {
			a, err := other.Actor(ctx, testID, nil)
			must(t, errors.Join(err, a.Close()))
		}, 1},
		{"another owner before", func(*actorstore.Actor) {
			a, err := other.Actor(ctx, testID, nil)
			must(t, errors.Join(err, a.Close()))
		}, func() {}, 1},
		{"an unknown outcome", func(a *actorstore.Actor) {
			eng.Fail(faultkv.Rule{Point: faultkv.AfterApply, Err: kv.ErrUnknownOutcome})
			if err := a.Put(ctx, user("k"), nil); !errors.Is(err, actorstore.ErrPoisoned) {
				t.Errorf("got %v, want %v", err, actorstore.ErrPoisoned)
			}
		}, func() {}, 1},
	} {
		a, err := s.Actor(ctx, testID, nil)
		must(t, err)
		must(t, a.Put(ctx, chunk(0), pageOf(0)))
		tt.do(a)
		must(t, a.Close())
		tt.then()
		a, err = s.Actor(ctx, testID, nil)
		must(t, err)
		readCount(eng)
		readPage(t, a, 0)
		if n := readCount(eng); n != tt.reads {
			t.Errorf("%s: %d reads, want %d", tt.what, n, tt.reads)
		}
		must(t, a.Close())
	}
	// What a fork writes, and what was dropped, isn't remembered.
	a := openActor(t, s)
	snap, err := a.Snapshot(ctx)
	must(t, err)
	id, err := s.Fork(ctx, snap, nil)
	must(t, errors.Join(err, snap.Close(), a.Drop(ctx)))
	fork, err := s.Actor(ctx, id, nil)
	must(t, err)
	readPage(t, fork, 0)
	must(t, fork.Close())
	a = openActor(t, s)
	if _, err := a.Page(ctx, chunk(0), nil); err != actorstore.ErrNotFound {
		t.Errorf("a page of a dropped actor: %v", err)
	}
}

// TestCacheFork: what was read of an actor before it was made by a fork isn't known of
// it after that.
func TestCacheFork(t *testing.T) {
	s := openStore(t, engines.Shared(engines.Far(memkv.New())), batch.Limits{})
	a := openActor(t, s)
	writePages(t, a, 2*a.Limits().Entries)
	id := actorstore.NewID()
	b, err := s.Actor(ctx, id, nil)
	must(t, err)
	if _, err := b.Page(ctx, chunk(0), nil); err != actorstore.ErrNotFound {
		t.Errorf("a page of an actor that isn't there: %v", err)
	}
	must(t, b.Close())
	snap, err := a.Snapshot(ctx)
	must(t, err)
	_, err = s.Fork(ctx, snap, &actorstore.ForkOptions{ID: id})
	must(t, errors.Join(err, snap.Close()))
	b, err = s.Actor(ctx, id, nil)
	must(t, err)
	readPage(t, b, 0)
	must(t, b.Close())
}

// TestCacheClear: deleted ranges void what is older, however many there are.
func TestCacheClear(t *testing.T) {
	s, eng := openFar(t, 0)
	a := openActor(t, s)
	const n = 100
	writePages(t, a, n)
	for i := 0; i < n; i += 2 {
		must(t, a.DeleteRange(ctx, chunk(i), chunk(i+1)))
	}
	must(t, a.Put(ctx, chunk(0), pageOf(0)))
	readCount(eng)
	readPage(t, a, 0)
	for i := 1; i < n; i++ {
		if i%2 == 1 {
			readPage(t, a, i)
		} else if _, err := a.Page(ctx, chunk(i), nil); err != actorstore.ErrNotFound {
			t.Errorf("deleted page %d: %v", i, err)
		}
	}
	if got := readCount(eng); got != n/2-1 {
		t.Errorf("%d reads, want %d: one for each deleted page", got, n/2-1)
	}
	var b batch.Batch
	b.Put(chunk(1), pageOf(7)) // removed again by what follows
	b.DeleteRange(chunk(0), chunk(3))
	b.Put(chunk(2), pageOf(2))
	must(t, a.Commit(ctx, &b))
	if _, err := a.Page(ctx, chunk(1), nil); err != actorstore.ErrNotFound {
		t.Errorf("a page deleted by the commit that wrote it: %v", err)
	}
	readPage(t, a, 2)
}
