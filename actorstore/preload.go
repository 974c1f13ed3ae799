package actorstore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// A KeyRange is the keys in [Start, End); a nil End means without bound.
type KeyRange struct{ Start, End []byte }

// Caches says whether what is read of the actor is kept in memory for the next time,
// and reading ahead pays: the engine is far, and the Store has a cache. Else Prefetch
// and Preload are of no use.
func (a *Actor) Caches() bool { return a.tip != nil && a.tip.cache != nil && a.store.engLimits.Far }

// CacheBytes is the size of the cache that the actor shares with all others of its
// Store, in bytes; 0 without one.
func (a *Actor) CacheBytes() int64 {
	if a.tip == nil || a.tip.cache == nil {
		return 0
	}
	return a.tip.cache.bytes
}

// Preload reads the keys in ranges with one read of the engine, and keeps the values of
// at most 10,000 bytes in the cache of the Store, as Prefetch does, but as what is used
// often. The ranges ascend
// and don't overlap. each, unless it is nil, is called with every entry, in the order of
// the keys, all of one state; an error of it ends the reading and is returned. An engine
// that can't read several ranges at once (kv.RangesScanner) reads the first one only;
// so what each hasn't seen is missing for sure only in that one.
func (a *Actor) Preload(ctx context.Context, ranges []KeyRange, each func(Entry) error) error {
	if err := a.check(); err != nil {
		return err
	}
	p := preloader{tip: a.tip, each: each}
	seq := a.Seq() // the newest commit before the question
	err := p.run(ctx, &a.space, ranges)
	if owned := a.owned(ctx, a.store.eng); owned != nil {
		return owned
	}
	if err != nil {
		return fmt.Errorf("actorstore: preload: %w", err)
	}
	for _, e := range p.read {
		l := learned{key: []byte(e.key), entry: e, seq: seq}
		a.tip.learn(&l)
	}
	return nil
}

// Preload is an Actor's, but keeps nothing: what is read of a View is each's to keep.
func (v *View) Preload(ctx context.Context, ranges []KeyRange, each func(Entry) error) error {
	if err := v.check(); err != nil {
		return err
	}
	p := preloader{each: each}
	if err := p.run(ctx, &v.space, ranges); err != nil {
		return fmt.Errorf("actorstore: preload: %w", err)
	}
	return nil
}

// Hints returns the actor's hints, nil for none. They must not be changed.
func (v *View) Hints() []byte { return v.hints }

// Far says whether each read of the View crosses a network.
func (v *View) Far() bool { return v.space.store.engLimits.Far }

// used is how often an entry is used that isn't on probation any more: no scan drives it
// out.
const used = 2

// A preloader reads for Preload.
type preloader struct {
	tip  *tip // nil: nothing is kept
	each func(Entry) error
	read []*entry
	err  error // of each
}

// run reads the ranges from sp.
func (p *preloader) run(ctx context.Context, sp *space, ranges []KeyRange) (err error) {
	if len(ranges) == 0 {
		return nil
	}
	rs := make([]kv.Range, len(ranges))
	for i, r := range ranges {
		rs[i] = sp.bounds(r.Start, r.End)
	}
	rows, snap, err := askRanges(ctx, sp, rs)
	if err != nil {
		return err
	}
	if snap != nil {
		defer func() { err = errors.Join(err, snap.Close()) }()
	}
	l := lister{space: sp, value: []byte{}, yield: p.take}
	for e, err := range rows {
		if err == nil {
			err = l.row(e)
		}
		if err != nil {
			return err
		}
		if p.err != nil {
			return p.err
		}
	}
	return l.finish()
}

// askRanges returns the rows of the ranges, and the engine's snapshot that they are read
// from, if it had to be made: a decorator may keep it from an Engine that it can read
// several ranges, and not from its snapshots.
func askRanges(ctx context.Context, sp *space, rs []kv.Range) (iter.Seq2[kv.Entry, error], kv.Snapshot, error) {
	if len(rs) == 1 {
		return sp.src.Scan(ctx, rs[0]), nil, nil
	}
	if rows := kv.ScanRanges(ctx, sp.src, rs); rows != nil {
		return rows, nil, nil
	}
	eng, isEngine := sp.src.(kv.Engine)
	if !isEngine {
		return sp.src.Scan(ctx, rs[0]), nil, nil
	}
	snap, err := eng.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	rows := kv.ScanRanges(ctx, snap, rs)
	if rows == nil {
		rows = snap.Scan(ctx, rs[0])
	}
	return rows, snap, nil
}

// take takes one entry.
func (p *preloader) take(e Entry, _ error) bool {
	if t := p.tip; t != nil && t.cache != nil && e.Size <= layout.RowSize {
		kept := t.remembered(e.Key, e.Value, nil, true)
		kept.hits.Store(used) // before, or it would not be asked for now
		p.read = append(p.read, kept)
	}
	if p.each != nil && p.err == nil {
		p.err = p.each(e)
	}
	return p.err == nil
}

// Cached says whether Page of key would be answered from memory. It asks nothing of the
// engine, and doesn't count as a use of what is there.
func (s *Snapshot) Cached(key []byte) bool {
	t := s.tip
	if t == nil || t.cache == nil {
		return false
	}
	e := t.cache.peek(t.tenant, key)
	if e != nil && e.from <= s.seq && e.answers(false) {
		return true
	}
	if s.snap != nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old, pin, err := t.find(key, s.seq)
	if old == nil && pin == nil && err == nil {
		old = e // no commit has touched it since
	}
	return old != nil && old.answers(false)
}

// peek is get without being a use.
func (c *cache) peek(t *tenant, key []byte) *entry {
	cleared := t.cleared.Load() // before the entry, as in get
	h := c.hash(t, key)
	s := c.shard(h)
	s.mu.RLock()
	e := s.entries[h]
	s.mu.RUnlock()
	if e == nil || e.tenant != t || e.key != string(key) || cleared != nil && e.cleared(*cleared) {
		return nil
	}
	return e
}
