package actorstore

import (
	"context"

	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/kv"
)

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
