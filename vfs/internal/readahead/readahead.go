// Package readahead says what to read with a page of a database that memory doesn't have, and reads it.
//
// On a far engine a read that goes to the engine takes a round trip, whether it brings
// one page or two hundred. So before a connection reads a page that memory doesn't have,
// its predictor says what else to fetch with it, and all of that goes into the cache of
// the Store, which all connections and actors share. Reading ahead never fails
// anything: if it does, the page is read by itself, and that error counts.
//
// On a near engine, and where the Store has no cache, Database and Conn are nil, and their methods do
// nothing.
package readahead

// Files, from the top down: readahead.go, a database and its connections; open.go, what is fetched when a database is opened;
// view.go, the memory of a view; hints.go, which pages are read first; predict.go, what is read with a page.

import (
	"context"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// A fetcher is a state of an actor whose values can be fetched into memory before they
// are asked for.
type fetcher interface {
	// Cached says whether memory has the page of key.
	Cached(key []byte) bool
	// Prefetch reads the keys in [start, end) into memory.
	Prefetch(ctx context.Context, start, end []byte, limit int) (int, error)
}

var _ fetcher = (*actorstore.Snapshot)(nil)

// Counters count chunks: those that memory had, and those that were read ahead.
type Counters struct {
	CacheHits  atomic.Int64 // that memory had when they were asked for
	Prefetches atomic.Int64 // reads that brought several chunks
	Prefetched atomic.Int64 // that such reads brought besides those that were asked for
	Used       atomic.Int64 // of these, asked for later
	Wasted     atomic.Int64 // of these, given up
}

// A Database is what the connections to one database share. It is safe for concurrent use, but for Open. A nil one does nothing.
type Database struct {
	source chunked.Source
	actor  *actorstore.Actor // nil: a view
	from   loader
	count  *Counters
	hints  *hints
}

// A loader is an actor, or a view of one, on a far engine.
type loader interface {
	Hints() []byte
	Seq() uint64
	Preload(ctx context.Context, ranges []actorstore.KeyRange, each func(actorstore.Entry) error) error
}

// New returns the Database of src, the actor a or, if that is nil, a view from OfView. It is nil if reading ahead doesn't pay.
// Open comes next.
func New(src chunked.Source, a *actorstore.Actor, count *Counters) *Database {
	d := &Database{source: src, actor: a, count: count}
	if v, ok := src.(*farView); ok {
		d.from = v
		return d
	}
	if a == nil || !a.Caches() {
		return nil
	}
	d.from = a
	return d
}

// Saw records that a page was read or written: b, at offset off of the main file, which has pages of size bytes and is plain
// SQLite or not. It keeps nothing of b.
func (d *Database) Saw(size int64, plain bool, b []byte, off int64, written bool) {
	if d != nil {
		d.hints.page(size, plain, b, off, written)
	}
}

// Ripen lets hints go with the actor's next commit, if they are worth that. The main file has end chunks.
func (d *Database) Ripen(end int64) {
	if d == nil {
		return
	}
	if b := d.hints.ripe(end); b != nil {
		d.actor.SetHints(b)
	}
}

// Keep stores the hints, if they are worth a commit, when the last connection to a database of end chunks is closed: the
// first moment at which nothing waits. Errors are those of actorstore.Actor.StoreHints.
func (d *Database) Keep(ctx context.Context, end int64) error {
	if d == nil || d.actor == nil {
		return nil
	}
	if b := d.hints.final(end, d.actor.Hints()); b != nil {
		return d.actor.StoreHints(ctx, b)
	}
	return nil
}

// A Conn reads ahead for one connection, by one
// goroutine at a time. A nil one does nothing.
type Conn struct {
	predictor
	counters *Counters
	told     prefetchCounts // what counters know

	// What is being read, during a call.
	state  fetcher
	layout actorstore.Layout
	tag    actorstore.FileTag

	key, end []byte // scratch
}

// cacheShare is the part of the cache that one window may take. A quarter of the cache is
// for what is asked for only once.
const cacheShare = 16

// fileBase sets the chunk numbers of the files apart, for one predictor.
const fileBase = int64(1) << 33

// NewConn returns what reads ahead for a new connection, nil if nothing does.
func (d *Database) NewConn() *Conn {
	if d == nil {
		return nil
	}
	c := &Conn{counters: d.count}
	c.cached, c.most = c, int64(viewBytes)/chunked.Size
	if d.actor != nil {
		// What a few connections read ahead should be there when they come to it.
		c.most = d.actor.CacheBytes() / cacheShare / chunked.Size
	}
	if c.most < 2 {
		return nil
	}
	return c
}

// Prepare is called before n bytes from off are read of the file tag of size bytes, in the
// state that r shows: it sees to it that memory has them, and perhaps what is behind.
func (c *Conn) Prepare(ctx context.Context, r actorstore.Reader, tag actorstore.FileTag, size, off, n int64) {
	if c == nil {
		return
	}
	state, ok := r.(fetcher)
	if !ok {
		return // the newest state, in the middle of a change; or one of the older form
	}
	first, last := off/chunked.Size, chunked.Count(min(off+n, size))
	if last <= first {
		return
	}
	c.state, c.layout, c.tag = state, r.Layout(), tag
	defer c.flush()
	base := int64(tag) * fileBase
	held := int64(0)
	for i := first; i < last; i++ {
		if c.has(base + i) {
			held++
		}
	}
	c.counters.CacheHits.Add(held)
	count := last - first
	if held == count {
		c.hit(base+first, count)
		return
	}
	from, to := base+first, base+last
	if count <= maxWindow/2 {
		from, to = c.miss(from, count, base+chunked.Count(size))
		from = max(from, base)
	}
	if to-from == 1 {
		return // it is read by itself
	}
	c.counters.Prefetches.Add(1)
	c.key = c.layout.AppendFileChunk(c.key[:0], tag, uint32(from-base))
	c.end = chunked.AppendEnd(c.end[:0], c.layout, tag, to-base)
	if _, err := state.Prefetch(ctx, c.key, c.end, 0); err != nil {
		c.failed(base + first)
	}
}

// has says whether memory has a chunk. It is the predictor's, too.
func (c *Conn) has(chunk int64) bool {
	c.key = c.layout.AppendFileChunk(c.key[:0], c.tag, uint32(chunk%fileBase))
	return c.state.Cached(c.key)
}

// flush adds what was counted to the counters.
func (c *Conn) flush() {
	now, s := c.count, c.counters
	if now == c.told {
		return
	}
	s.Prefetched.Add(now.pages - c.told.pages)
	s.Used.Add(now.used - c.told.used)
	s.Wasted.Add(now.wasted - c.told.wasted)
	c.told = now
}

// Close gives up what was read ahead and not used.
func (c *Conn) Close() {
	if c == nil {
		return
	}
	for k := range c.streams {
		c.retire(&c.streams[k])
	}
	c.flush()
}
