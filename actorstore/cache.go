package actorstore

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
)

// A cache keeps what was read and written lately, of all actors of a Store, so that
// a far engine isn't asked twice, and a near one not time and again (nearcache.go). It
// holds the newest values only, each with the commit from which it is known to hold; what
// older states need is kept by the handles, see snapshottip.go, or by the engine.
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
type cache struct {
	seed   maphash.Seed
	shards []shard // a power of two of them
	bytes  int64   // the bound

	mu   sync.Mutex
	kept map[ID]keptTenant // of handles that are closed  +checklocks:mu
}

const (
	// defaultCacheBytes is the size of the cache unless Options say otherwise.
	defaultCacheBytes = 32 << 20
	// maxShards is enough for the readers of one machine; a shard should hold some
	// hundred pages, or the bound of one is reached long before that of all.
	maxShards  = 16
	shardBytes = 1 << 20
	// entryBytes is about what an entry costs besides key and value: itself and its
	// place in the map.
	entryBytes = 192
	// maxHits bounds how often an entry of the main queue is spared.
	maxHits = 3
	// maxTenants bounds the actors whose pages are kept while they have no owner here.
	maxTenants = 4096
)

// newCache returns a cache of at most so many bytes, nil for none.
func newCache(bytes int64) *cache {
	if bytes <= 0 {
		return nil
	}
	n := 1
	for n < maxShards && int64(n)*2*shardBytes <= bytes {
		n *= 2
	}
	c := &cache{seed: maphash.MakeSeed(), shards: make([]shard, n), bytes: bytes, kept: map[ID]keptTenant{}}
	for i := range c.shards {
		s := &c.shards[i]
		s.limit, s.entries, s.ghosts.in = bytes/int64(n), map[uint64]*entry{}, map[uint64]struct{}{}
		s.door = newDoor(s.limit)
	}
	return c
}

// A tenant is whose an entry is: one actor, for as long as it has the same owner.
type tenant struct {
	salt uint64
	// dead: its entries are never asked for again.
	dead atomic.Bool
	// cleared are ranges that were deleted, each with the commit that did: what is
	// older in them is void. Sought out and removed when there are many. It is
	// changed under the lock of the handle.
	cleared clearings
}

// A clearing is a deleted range of keys.
type clearing struct {
	start, end string // "" as an end is no bound
	seq        uint64
}

// maxClearings bounds what a hit must be compared with.
const maxClearings = 8

func newTenant() *tenant { return &tenant{salt: rand.Uint64()} }

// An entryKind says how much of a value is known.
type entryKind uint8

const (
	entryWhole  entryKind = iota // all of it: at most one row
	entryAbsent                  // none
	entryPage                    // its first 10,000 bytes, of perhaps more
	entryNoPage                  // none, or an empty one
)

// An entry is one key and what is stored under it. Everything but hits and the
// place in a queue stays as it is: a new value is a new entry.
type entry struct {
	tenant *tenant
	key    string
	value  []byte
	from   uint64 // the commit from which this is known to hold
	kind   entryKind
	hash   uint64

	hits       atomic.Uint32
	prev, next *entry // older and newer in queue; guarded by the shard, as queue is
	queue      *queue
}

func (e *entry) size() int64 { return int64(len(e.key) + len(e.value) + entryBytes) }

// answers says whether the entry knows enough for Get, if whole, or else for Page.
func (e *entry) answers(whole bool) bool {
	return !whole || e.kind == entryWhole || e.kind == entryAbsent
}

// answer appends the value to dst, as Get if whole, else as Page.
func (e *entry) answer(dst []byte, whole bool) ([]byte, error) {
	if e.kind == entryAbsent || len(e.value) == 0 && !whole {
		return dst, ErrNotFound
	}
	return append(dst, e.value...), nil
}

func (c *cache) hash(t *tenant, key []byte) uint64 {
	// The salt is as random as the hash, so their sum is spread as well.
	return maphash.Bytes(c.seed, key) + t.salt
}

func (c *cache) shard(hash uint64) *shard { return &c.shards[hash>>32&uint64(len(c.shards)-1)] }

// get returns the entry of key, nil if it isn't known to be the newest.
// What the caller takes for the number of the newest commit must be read before.
func (c *cache) get(t *tenant, key []byte) *entry {
	// Before the entry: a clearing is forgotten only when no entry is left in it.
	cleared := t.cleared.Load()
	h := c.hash(t, key)
	s := c.shard(h)
	s.mu.RLock()
	e := s.entries[h]
	if e == nil || e.tenant != t || e.key != string(key) {
		s.mu.RUnlock()
		return nil
	}
	// Counting under the lock means that no entry is counted during an eviction. An
	// entry that is used all the time is only read.
	if e.hits.Load() < maxHits {
		e.hits.Add(1)
	}
	s.mu.RUnlock()
	if cleared != nil && e.cleared(*cleared) {
		return nil
	}
	return e
}

// cleared says whether e lies in a range that was deleted since it was read.
func (e *entry) cleared(in []clearing) bool {
	for i := range in {
		if c := &in[i]; e.from < c.seq && c.start <= e.key && (c.end == "" || e.key < c.end) {
			return true
		}
	}
	return false
}

// put adds an entry in the place of the one of its key. written says that it is a new
// value, and not another answer to a question that was answered before.
func (c *cache) put(e *entry, written bool) {
	e.hash = maphash.String(c.seed, e.key) + e.tenant.salt
	s := c.shard(e.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(e, written)
}

// remove forgets key.
func (c *cache) remove(t *tenant, key []byte) {
	h := c.hash(t, key)
	s := c.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[h]; e != nil && e.tenant == t && e.key == string(key) {
		s.drop(e)
	}
}

// dropHash drops the entry of a hash if it is t's.
func (c *cache) dropHash(t *tenant, hash uint64) {
	s := c.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[hash]; e != nil && e.tenant == t {
		s.drop(e)
	}
}

// clear voids the entries of [start, end) that are older than commit seq, and seeks them
// out when there are many such ranges: what is left must be worth a read of a far engine.
func (c *cache) clear(t *tenant, start, end []byte, seq uint64) {
	all := t.cleared.with(start, end, seq)
	t.cleared.Store(&all)
	if len(all) <= maxClearings {
		return
	}
	for i := range c.shards {
		c.shards[i].sweep(t, all)
	}
	t.cleared.Store(nil)
}

// clear is the cache's for a near engine: with many ranges everything older is void.
func (t *tenant) clear(start, end []byte, seq uint64) {
	all := t.cleared.with(start, end, seq)
	if len(all) > maxClearings {
		all = []clearing{{"", "", seq}}
	}
	t.cleared.Store(&all)
}

// clearings are what a tenant's cleared points to.
type clearings struct {
	atomic.Pointer[[]clearing]
}

// with returns them with another one, and without those that are within it.
func (c *clearings) with(start, end []byte, seq uint64) []clearing {
	all := []clearing{{string(start), string(end), seq}}
	if was := c.Load(); was != nil {
		for _, w := range *was {
			if w.start < all[0].start || all[0].end != "" && (w.end == "" || w.end > all[0].end) {
				all = append(all, w) // not within the new one
			}
		}
	}
	return all
}

// A keptTenant is an actor without an owner here, as long as its head is row.
type keptTenant struct {
	tenant *tenant
	row    [layout.HeadSize]byte
}

// keep remembers the entries of an actor for its next opening. Its head says
// whether they still hold: no commit and no claim leaves that as it was.
func (c *cache) keep(id ID, t *tenant, row *[layout.HeadSize]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kept) >= maxTenants {
		for other, k := range c.kept { // any one
			k.tenant.dead.Store(true)
			delete(c.kept, other)
			break
		}
	}
	c.kept[id] = keptTenant{t, *row}
}

// adopt returns the tenant of an actor whose head is row now.
func (c *cache) adopt(id ID, row []byte) *tenant {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.kept[id]
	delete(c.kept, id)
	if ok && string(k.row[:]) == string(row) {
		return k.tenant
	}
	if ok {
		k.tenant.dead.Store(true)
	}
	return newTenant()
}
