package vfs

import (
	"context"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// On a far engine a read that goes to the engine takes a round trip, whether it brings
// one page or two hundred. So before a connection reads a page that memory doesn't have,
// its predictor says what else to fetch with it, and all of that goes into the cache of
// the Store, which all connections and actors share. Reading ahead never fails
// anything: if it does, the page is read by itself, and that error counts.
//
// On a near engine, and where the Store has no cache, no connection has an ahead, and
// there is nothing of this but a comparison with nil.

// A fetcher is a state of an actor whose values can be fetched into memory before they
// are asked for.
type fetcher interface {
	// Cached says whether memory has the page of key.
	Cached(key []byte) bool
	// Prefetch reads the keys in [start, end) into memory.
	Prefetch(ctx context.Context, start, end []byte, limit int) (int, error)
}

var _ fetcher = (*actorstore.Snapshot)(nil)

// An ahead reads ahead for one connection. It is used as its handle is, by one
// goroutine at a time.
type ahead struct {
	predictor
	db   *database
	told prefetchCounts // what the database's counters know

	// What is being read, during a call.
	state  fetcher
	layout actorstore.Layout
	tag    actorstore.FileTag

	key, end []byte // scratch
}

// cacheShare is the part of the cache that one window may take. A quarter of the cache is
// for what nobody has asked for twice.
const cacheShare = 16

// fileBase sets the chunk numbers of the files apart, for one predictor.
const fileBase = int64(1) << 33

// newAhead returns what reads ahead for a new connection, nil if nothing does.
func (db *database) newAhead() *ahead {
	if !db.far {
		return nil
	}
	a := &ahead{db: db}
	a.cached, a.most = a, int64(viewBytes)/chunked.Size
	if db.actor != nil {
		// What a few connections read ahead should be there when they come to it.
		a.most = db.actor.CacheBytes() / cacheShare / chunked.Size
	}
	if a.most < 2 {
		return nil
	}
	return a
}

// prepare is called before n bytes from off are read of a file of size bytes, in the
// state that r shows: it sees to it that memory has them, and perhaps what is behind.
func (a *ahead) prepare(h *handle, r actorstore.Reader, f fileState, off, n int64) {
	state, ok := r.(fetcher)
	if !ok {
		return // the newest state, in the middle of a change; or one of the older form
	}
	first, last := off/chunked.Size, chunked.Count(min(off+n, f.size))
	if last <= first {
		return
	}
	a.state, a.layout, a.tag = state, r.Layout(), f.tag
	defer a.flush()
	base := int64(f.tag) * fileBase
	held := int64(0)
	for i := first; i < last; i++ {
		if a.has(base + i) {
			held++
		}
	}
	a.db.stats.cacheHits.Add(held)
	count := last - first
	if held == count {
		a.hit(base+first, count)
		return
	}
	from, to := base+first, base+last
	if count <= maxWindow/2 {
		from, to = a.miss(from, count, base+chunked.Count(f.size))
		from = max(from, base)
	}
	if to-from == 1 {
		return // it is read by itself
	}
	a.db.stats.prefetches.Add(1)
	a.key = a.layout.AppendFileChunk(a.key[:0], f.tag, uint32(from-base))
	a.end = chunked.AppendEnd(a.end[:0], a.layout, f.tag, to-base)
	if _, err := state.Prefetch(h.ctx, a.key, a.end, 0); err != nil {
		a.failed(base + first)
	}
}

// A fileState is which file is read, and how large it is.
type fileState struct {
	tag  actorstore.FileTag
	size int64
}

// has says whether memory has a chunk. It is the predictor's, too.
func (a *ahead) has(chunk int64) bool {
	a.key = a.layout.AppendFileChunk(a.key[:0], a.tag, uint32(chunk%fileBase))
	return a.state.Cached(a.key)
}

// flush adds what was counted to the counters of the database.
func (a *ahead) flush() {
	now, s := a.count, &a.db.stats
	if now == a.told {
		return
	}
	s.prefetched.Add(now.pages - a.told.pages)
	s.prefetchUsed.Add(now.used - a.told.used)
	s.prefetchWasted.Add(now.wasted - a.told.wasted)
	a.told = now
}

// close gives up what was read ahead and not used.
func (a *ahead) close() {
	for k := range a.streams {
		a.retire(&a.streams[k])
	}
	a.flush()
}
