package actorstore

import (
	"context"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// Prefetch reads the keys in [start, end), at most limit of them, with one Scan of
// the engine, and keeps the values of at most 10,000 bytes in the cache of the Store,
// from where Page and Get then have them. A nil end and a limit of 0 mean without
// bound. It returns how many are kept; those that a commit has touched since the
// state of s, or is just touching, are not. Without a cache, for a View, and for
// a state that the engine keeps because it isn't the newest one, it does nothing.
//
// What doesn't fit into the cache together evicts itself: a quarter of
// Options.CacheBytes is for what was not read twice, of all actors.
func (s *Snapshot) Prefetch(ctx context.Context, start, end []byte, limit int) (int, error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	if s.tip == nil || s.tip.cache == nil || !s.newest() {
		return 0, nil
	}
	r := s.space.bounds(start, end)
	// A value of one row has two, with METADATA. Of larger ones less comes.
	r.Limit = 2 * max(limit, 0)
	sp := s.space
	sp.src = s.snap
	p := prefetcher{s: s, limit: limit}
	if s.snap == nil {
		sp.src = s.owner.store.eng
	}
	n, err := p.run(ctx, &sp, r)
	if err != nil {
		return n, fmt.Errorf("actorstore: prefetch: %w", err)
	}
	return n, nil
}

// newest says whether what the engine shows can be what s shows and the newest state
// at once, which is all that the cache is for.
func (s *Snapshot) newest() bool {
	if s.snap != nil {
		return s.owner.Seq() == s.seq
	}
	t := s.tip
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.seq >= t.pinned()
}

// A prefetcher puts what a scan finds into the cache.
type prefetcher struct {
	s     *Snapshot
	limit int
	kept  int
}

// run reads r with one scan.
func (p *prefetcher) run(ctx context.Context, sp *space, r kv.Range) (int, error) {
	l := lister{space: sp, value: []byte{}, opts: ListOptions{Limit: p.limit}}
	var read []*entry
	l.yield = func(e Entry, err error) bool {
		if t := p.s.tip; e.Size <= layout.RowSize {
			read = append(read, t.remembered(e.Key, e.Value, nil, true))
		}
		return true
	}
	for e, err := range sp.src.Scan(ctx, r) {
		if err != nil {
			return 0, err
		}
		if err := l.row(e); err != nil {
			return 0, err
		}
		if l.stop {
			break
		}
	}
	// The last key may be cut off by the limit: nothing is known of it.
	if err := p.s.owned(ctx); err != nil {
		return 0, err
	}
	for _, e := range read {
		p.keep(e)
	}
	return p.kept, nil
}

// keep enters what was read.
func (p *prefetcher) keep(e *entry) {
	s := p.s
	l := learned{key: []byte(e.key), entry: e, seq: s.seq}
	if s.snap == nil { // it was read from the newest state, else from that of seq
		l.snap = s
	}
	if ok, _ := s.tip.learn(&l); ok && e.tenant != nil {
		p.kept++
	}
}
