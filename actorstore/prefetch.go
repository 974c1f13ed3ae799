package actorstore

import (
	"context"

	"github.com/greenroomdb/greenroom/actorstore/internal/reads"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
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
	if err := s.state.Err(); err != nil {
		return 0, err
	}
	return s.state.Prefetch(ctx, s.state.Rows.Bounds(start, end), limit)
}

// Cached says whether Page of key would be answered from memory. It asks nothing of the
// engine, and doesn't count as a use of what is there.
func (s *Snapshot) Cached(key []byte) bool { return s.state.Cached(key) }

// A KeyRange is the keys in [Start, End); a nil End means without bound.
type KeyRange struct{ Start, End []byte }

// Caches says whether what is read of the actor is kept in memory for the next time,
// and reading ahead pays: the engine is far, and the Store has a cache. Else Prefetch
// and Preload are of no use.
func (a *Actor) Caches() bool { return a.CacheBytes() > 0 }

// CacheBytes is the size of the cache that the actor shares with all others of its
// Store, in bytes; 0 unless it Caches.
func (a *Actor) CacheBytes() int64 { return a.reads.Ahead() }

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
	return a.reads.Preload(ctx, rowRanges(&a.space, ranges), eachRow(each))
}

// Preload is an Actor's, but keeps nothing: what is read of a View is each's to keep.
func (v *View) Preload(ctx context.Context, ranges []KeyRange, each func(Entry) error) error {
	if err := v.state.Err(); err != nil {
		return err
	}
	return reads.Preload(ctx, &v.state.Rows, rowRanges(&v.state.Rows, ranges), eachRow(each))
}

func rowRanges(sp *rows.Space, ranges []KeyRange) []kv.Range {
	rs := make([]kv.Range, len(ranges))
	for i, r := range ranges {
		rs[i] = sp.Bounds(r.Start, r.End)
	}
	return rs
}

func eachRow(each func(Entry) error) func(rows.Entry) error {
	if each == nil {
		return nil
	}
	return func(e rows.Entry) error { return each(Entry(e)) }
}

// Hints returns the actor's hints, nil for none. They must not be changed.
func (v *View) Hints() []byte { return v.hints }

// Far says whether each read of the View crosses a network.
func (v *View) Far() bool { return v.store.engLimits.Far }
