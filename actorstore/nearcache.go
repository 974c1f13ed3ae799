package actorstore

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
)

// A nearCache is what a handle on a near engine keeps of its actor's pages. A read of the
// engine costs a search in its tables there, and no round trip: so only what is read
// again and again is worth the memory, and a commit needn't bring in what it writes.
// Snapshots are the engine's; they look here first, for what no commit has touched since.
//
// A hit doesn't ask the engine, so it finds neither that it was closed, which is an error of
// the program that has actors open on it, nor that it was poisoned by another actor's commit.
type nearCache struct {
	a      *Actor
	cache  *cache
	tenant *tenant
	mu     sync.Mutex // of what changes the tenant's entries: nothing old comes late
	// mine are the hashes of the first entries, which end with the handle: of many actors
	// that are opened for a moment nothing stays. Others are evicted some day.
	mine []uint64 // +checklocks:mu
	any  bool     // there was an entry  +checklocks:mu
}

// maxMine bounds what closing a handle takes.
const maxMine = 64

// newNearCache returns the nearCache of a new handle, nil on a far engine, and where the
// Store has no cache.
func newNearCache(a *Actor) *nearCache {
	if a.store.cache == nil || a.store.engLimits.Far {
		return nil
	}
	return &nearCache{a: a, cache: a.store.cache, tenant: newTenant()}
}

// page answers Page of the newest state. While a commit is under way it asks the engine:
// a reader that saw a part of the commit there must not find here what was before.
func (n *nearCache) page(ctx context.Context, key, dst []byte) ([]byte, error) {
	a := n.a
	phase, seq := a.phase.Load(), a.Seq()
	if phase%2 == 0 {
		// A newer one may be of a commit that is just being entered, and in it not the last.
		if e := n.cache.get(n.tenant, key); e != nil && e.from <= seq {
			if err := a.owned(ctx, a.store.eng); err != nil {
				return dst, err
			}
			return e.answer(dst, false)
		}
	}
	out, err := a.space.page(ctx, key, dst)
	if owned := a.owned(ctx, a.store.eng); owned != nil {
		return dst, owned
	}
	// Else a commit has begun since, and this may be what it wrote.
	same := func() bool { return phase%2 == 0 && a.phase.Load() == phase }
	n.learn(key, out[len(dst):], err, seq, same)
	return out, err
}

// snapshotPage answers Page of s.
func (n *nearCache) snapshotPage(ctx context.Context, s *Snapshot, key, dst []byte) ([]byte, error) {
	// In this order: the engine may have shown its snapshot a commit that is not
	// entered here yet, and then what is here may be older than s.
	if n.a.Seq() >= s.seq {
		if e := n.cache.get(n.tenant, key); e != nil && e.from <= s.seq {
			if err := s.owned(ctx); err != nil {
				return dst, err
			}
			return e.answer(dst, false)
		}
	}
	out, err := s.space.page(ctx, key, dst)
	if owned := s.owned(ctx); owned != nil {
		return dst, owned
	}
	n.learn(key, out[len(dst):], err, s.seq, func() bool { return true })
	return out, err
}

// learn keeps an answer of the engine about the state after commit seq, if that is the
// newest one and the key was asked for before. is says, asked when no commit can be
// entered, whether the answer is of that state for sure.
func (n *nearCache) learn(key, value []byte, err error, seq uint64, is func() bool) {
	if err != nil && !errors.Is(err, ErrNotFound) {
		return
	}
	if n.a.Seq() != seq || !n.cache.knocked(n.tenant, key) {
		return
	}
	e := &entry{tenant: n.tenant, key: string(key), value: bytes.Clone(value), from: seq, kind: entryPage}
	if err != nil {
		e.kind = entryNoPage
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.a.Seq() == seq && is() && n.a.check() == nil {
		n.cache.put(e, false)
		n.any = true
		if len(n.mine) < maxMine {
			n.mine = append(n.mine, e.hash)
		}
	}
}

// land enters what f has changed: it is the newest state from now on.
func (n *nearCache) land(f *flight) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f.drop {
		n.tenant.dead.Store(true)
	}
	if f.drop || !n.any { // as of most actors that have no database
		f.publish()
		return
	}
	ranges := f.ranges()
	for i := f.from; i < f.to; i++ {
		o := f.op(i)
		if o.Kind == batch.DeleteRange {
			if f.before[i] > 0 {
				n.tenant.clear(o.Key, o.Value, f.next.Seq)
			}
			continue
		}
		// Most of what is written isn't here.
		old := n.cache.peek(n.tenant, o.Key)
		switch {
		case old == nil:
		case o.Kind == batch.Put && len(o.Value) > 0 && !f.clearedLater(i, ranges):
			n.renew(old, o.Value[:min(len(o.Value), layout.RowSize)], f.next.Seq)
		default:
			n.cache.remove(n.tenant, o.Key)
		}
	}
	f.publish()
}

// renew replaces an entry whose value is another one now, if it was used; unused it is
// dropped, and being written uses up a hit: a key that is written time and again and
// never read needs no copy.
func (n *nearCache) renew(old *entry, value []byte, from uint64) {
	hits := old.hits.Load()
	if hits == 0 || !old.hits.CompareAndSwap(hits, hits-1) { // else it is just being read or evicted
		n.cache.remove(n.tenant, []byte(old.key))
		return
	}
	n.cache.put(&entry{tenant: n.tenant, key: old.key, value: bytes.Clone(value), from: from, kind: entryPage}, false)
}

// forget gives up the entries: the handle is closed, and they are not asked for any more.
func (n *nearCache) forget() {
	n.tenant.dead.Store(true)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range n.mine {
		n.cache.dropHash(n.tenant, h)
	}
	n.mine = nil
}
