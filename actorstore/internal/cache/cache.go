// Package cache keeps in memory what was read and written lately of actors' keys.
package cache

// Files, from the top down:
//
//	cache.go shard.go entry.go door.go

import (
	"bytes"
	"hash/maphash"
	"math/rand/v2"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
)

// A Cache keeps values of all actors of a store, so that a far engine isn't asked twice, and a near
// one not time and again. It holds the newest values only, each with the commit from which it is known
// to hold. It is safe for concurrent use.
//
// What to drop is decided as in S3-FIFO (https://s3fifo.com): a new entry is on
// probation in a short queue, and moves to the main one only if it was used again
// there, or was dropped so lately that its hash is still remembered. So a scan,
// however long, passes through the short queue and evicts nothing that others use.
// It was chosen over 2Q and CLOCK-Pro because a hit moves nothing: it only counts,
// and readers need no more than a shared lock. LRU would be emptied by every scan.
//
// A hit takes the shared lock of one shard for one look into a map, and copies the
// value outside of it: entries don't change.
type Cache struct {
	seed   maphash.Seed
	shards []shard // a power of two of them
	bytes  int64   // the bound

	mu   sync.Mutex
	kept map[layout.ID]keptPart // of handles that are closed  +checklocks:mu
}

const (
	// DefaultBytes is the size of a cache for which none was chosen.
	DefaultBytes = 32 << 20
	// maxShards is enough for the readers of one machine; a shard should hold some
	// hundred pages, or the bound of one is reached long before that of all.
	maxShards  = 16
	shardBytes = 1 << 20
	// maxKept bounds the actors whose pages are kept while they have no owner here.
	maxKept = 4096
)

// New returns a Cache of at most so many bytes; without any it returns nil, which keeps nothing.
func New(bytes int64) *Cache {
	if bytes <= 0 {
		return nil
	}
	n := 1
	for n < maxShards && int64(n)*2*shardBytes <= bytes {
		n *= 2
	}
	c := &Cache{seed: maphash.MakeSeed(), shards: make([]shard, n), bytes: bytes, kept: map[layout.ID]keptPart{}}
	for i := range c.shards {
		s := &c.shards[i]
		s.limit, s.entries, s.ghosts.in = bytes/int64(n), map[uint64]*Entry{}, map[uint64]struct{}{}
		s.door = newDoor(s.limit)
	}
	return c
}

// A Part is what a Cache has of one actor, for as long as that has the same owner. It is safe for
// concurrent use; but what changes it must come in the order of the commits. A nil Part keeps
// nothing.
type Part struct {
	*Cache
	tenant
}

// Part returns an empty Part for an actor, nil of a nil Cache.
func (c *Cache) Part() *Part {
	if c == nil {
		return nil
	}
	return &Part{Cache: c, tenant: tenant{salt: rand.Uint64()}}
}

// Die says that the entries are never asked for again. They are evicted some day.
func (p *Part) Die() {
	if p != nil {
		p.dead.Store(true)
	}
}

// Bytes is the bound of all entries of the Cache, in bytes; 0 for a nil Part.
func (p *Part) Bytes() int64 {
	if p == nil {
		return 0
	}
	return p.bytes
}

func (p *Part) hash(key []byte) uint64 {
	// The salt is as random as the hash, so their sum is spread as well.
	return maphash.Bytes(p.seed, key) + p.salt
}

func (c *Cache) shard(hash uint64) *shard { return &c.shards[hash>>32&uint64(len(c.shards)-1)] }

// Get returns the entry of key, nil if it isn't known to be the newest, and counts the use.
// What the caller takes for the number of the newest commit must be read before.
func (p *Part) Get(key []byte) *Entry { return p.find(key, true) }

// Peek is Get without being a use.
func (p *Part) Peek(key []byte) *Entry { return p.find(key, false) }

func (p *Part) find(key []byte, use bool) *Entry {
	if p == nil {
		return nil
	}
	// Before the entry: a clearing is forgotten only when no entry is left in it.
	cleared := p.cleared.Load()
	h := p.hash(key)
	s := p.shard(h)
	s.mu.RLock()
	e := s.entries[h]
	if e == nil || !e.is(&p.tenant, key) {
		s.mu.RUnlock()
		return nil
	}
	// Counting under the lock means that no entry is counted during an eviction. An
	// entry that is used all the time is only read.
	if use && e.hits.Load() < maxHits {
		e.hits.Add(1)
	}
	s.mu.RUnlock()
	if cleared != nil && e.cleared(*cleared) {
		return nil
	}
	return e
}

// Put adds an entry in the place of the one of its key. written says that it is a new
// value, and not another answer to a question that was answered before.
func (p *Part) Put(e *Entry, written bool) {
	e.of, e.hash = &p.tenant, maphash.String(p.seed, e.Key)+p.salt
	s := p.shard(e.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(e, written)
}

// Remove forgets key.
func (p *Part) Remove(key []byte) {
	h := p.hash(key)
	s := p.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[h]; e != nil && e.is(&p.tenant, key) {
		s.drop(e)
	}
}

// Drop forgets the entry of a hash, which Entry.Hash returned.
func (p *Part) Drop(hash uint64) {
	s := p.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[hash]; e != nil && e.of == &p.tenant {
		s.drop(e)
	}
}

// Renew replaces an entry whose value is another one since commit from, if it was used. Unused it
// is dropped, and being written uses up a hit: a key that is written time and again and never read
// needs no copy.
func (p *Part) Renew(old *Entry, value []byte, from uint64) {
	hits := old.hits.Load()
	if hits == 0 || !old.hits.CompareAndSwap(hits, hits-1) { // else it is just being read or evicted
		p.Remove([]byte(old.Key))
		return
	}
	p.Put(&Entry{Key: old.Key, Value: bytes.Clone(value), From: from, Kind: Page}, false)
}

// Clear voids the entries of [start, end) that are older than commit seq; with a nil end, of all keys from start on. When
// there are many such ranges they are sought out: what is left is worth a read of a far engine.
func (p *Part) Clear(start, end []byte, seq uint64) {
	all := p.cleared.with(start, end, seq)
	p.cleared.Store(&all)
	if len(all) <= maxClearings {
		return
	}
	for i := range p.shards {
		p.shards[i].sweep(&p.tenant, all)
	}
	p.cleared.Store(nil)
}

// ClearNear is Clear where a read costs little: with many ranges everything older is void.
func (p *Part) ClearNear(start, end []byte, seq uint64) {
	all := p.cleared.with(start, end, seq)
	if len(all) > maxClearings {
		all = []clearing{{"", "", seq}}
	}
	p.cleared.Store(&all)
}

// A keptPart is of an actor without an owner here, as long as its head is row.
type keptPart struct {
	part *Part
	row  [layout.HeadSize]byte
}

// Keep remembers the entries of an actor for its next opening. Its head says
// whether they still hold: no commit and no claim leaves that as it was.
func (p *Part) Keep(id layout.ID, row *[layout.HeadSize]byte) {
	if p == nil {
		return
	}
	c := p.Cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kept) >= maxKept {
		for other, k := range c.kept { // any one
			k.part.Die()
			delete(c.kept, other)
			break
		}
	}
	c.kept[id] = keptPart{p, *row}
}

// Adopt returns the Part that was kept of an actor whose head is row now, else an empty one; nil of a
// nil Cache.
func (c *Cache) Adopt(id layout.ID, row []byte) *Part {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.kept[id]
	delete(c.kept, id)
	if ok && string(k.row[:]) == string(row) {
		return k.part
	}
	if ok {
		k.part.Die()
	}
	return c.Part()
}

// Asked says whether key was asked for before, not too long ago, and remembers that it was now.
func (p *Part) Asked(key []byte) bool {
	h := p.hash(key)
	return p.shard(h).door.knocked(h)
}
