package actorstore

import (
	"context"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore/internal/reads"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/kv"
)

// A reader reads the newest applied state of an actor for its handle.
type reader struct {
	arrangement
	space  rows.Space // of that state
	reads  reads.Reads
	handle reads.Handle
}

// Get appends the value of key to dst. See Reader.
func (r *reader) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	return r.read(ctx, key, dst, true)
}

// Page appends the first 10,000 bytes of the value of key to dst. See Reader.
func (r *reader) Page(ctx context.Context, key, dst []byte) ([]byte, error) {
	return r.read(ctx, key, dst, false)
}

func (r *reader) read(ctx context.Context, key, dst []byte, whole bool) ([]byte, error) {
	if err := r.handle.Usable(); err != nil {
		return dst, err
	}
	return r.reads.Read(ctx, key, dst, whole)
}

// List yields the entries that opts select. See Reader.
func (r *reader) List(ctx context.Context, opts ListOptions) iter.Seq2[Entry, error] {
	return list(ctx, &r.space, opts, func() error {
		if err := r.handle.Usable(); err != nil {
			return err
		}
		return r.handle.Owned(ctx, r.space.Source)
	})
}

// list yields the entries of a Space.
func list(ctx context.Context, sp *rows.Space, opts ListOptions, check func() error) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		sp.List(ctx, rows.Options(opts), check)(func(e rows.Entry, err error) bool { return yield(Entry(e), err) })
	}
}

// Caches says whether what is read of the actor is kept in memory for the next time,
// and reading ahead pays: the engine is far, and the Store has a cache. Else Prefetch
// and Preload are of no use.
func (r *reader) Caches() bool { return r.CacheBytes() > 0 }

// CacheBytes is the size of the cache that the actor shares with all others of its
// Store, in bytes; 0 unless it Caches.
func (r *reader) CacheBytes() int64 { return r.reads.Ahead() }

// Preload reads the keys in ranges with one read of the engine, and keeps the values of
// at most 10,000 bytes in the cache of the Store, as Prefetch does, but as what is used
// often. The ranges ascend
// and don't overlap. each, unless it is nil, is called with every entry, in the order of
// the keys, all of one state; an error of it ends the reading and is returned. An engine
// that can't read several ranges at once (kv.RangesScanner) reads the first one only;
// so what each hasn't seen is missing for sure only in that one.
func (r *reader) Preload(ctx context.Context, ranges []KeyRange, each func(Entry) error) error {
	if err := r.handle.Usable(); err != nil {
		return err
	}
	return r.reads.Preload(ctx, rowRanges(&r.space, ranges), eachRow(each))
}

// Snapshot pins the newest applied state of the actor.
//
// It asks nothing of a near engine but a snapshot, not even that if another actor has one
// that will do (see shared), and nothing at all of a far one,
// unless a commit is being applied at that very moment: then it reads the head to know
// its Seq.
func (r *reader) Snapshot(ctx context.Context) (*Snapshot, error) {
	return r.snapshot(ctx, true)
}

// PageSnapshot is Snapshot for a caller that reads single keys: List is errPagesOnly. On a far
// engine the next commit pins nothing for it, as it must for a Snapshot, when memory
// has the values that the commit replaces.
func (r *reader) PageSnapshot(ctx context.Context) (*Snapshot, error) {
	return r.snapshot(ctx, false)
}

func (r *reader) snapshot(ctx context.Context, lists bool) (*Snapshot, error) {
	if err := r.handle.Usable(); err != nil {
		return nil, err
	}
	s := &Snapshot{arrangement: arrangement{r.layout}}
	if err := r.reads.Open(ctx, &s.state, lists); err != nil {
		return nil, err
	}
	return s, nil
}

// A KeyRange is the keys in [Start, End); a nil End means without bound.
type KeyRange struct{ Start, End []byte }

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
