package pebblekv

import (
	"bytes"
	"context"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroomdb/greenroom/kv"
)

// ctxEvery is how many entries a scan yields between two looks at its context.
const ctxEvery = 64

// What the newest state and a snapshot of Pebble have in common.
type (
	getter interface {
		Get(key []byte) ([]byte, io.Closer, error)
	}
	scanner interface {
		NewIterWithContext(ctx context.Context, o *pebble.IterOptions) (*pebble.Iterator, error)
	}
)

// A reader reads the newest state, and snapshots.
type reader struct {
	*store
	memory *memory
}

// get reads from src and copies out of Pebble's memory, which is only valid
// until the closer is closed.
func (r *reader) get(src getter, key, dst []byte) ([]byte, error) {
	if isOwn(key) {
		return dst, kv.ErrNotFound
	}
	v, closer, err := src.Get(key)
	if err != nil {
		if err == pebble.ErrNotFound {
			err = kv.ErrNotFound
		} else {
			err = wrap(err)
		}
		if bad := r.fault.Get(); bad != nil {
			err = bad
		}
		return dst, err
	}
	out := append(dst, v...)
	if err := r.verdict(closer.Close()); err != nil {
		return dst, err
	}
	return out, nil
}

// scan runs one iteration over src.
func (r *reader) scan(ctx context.Context, src scanner, rng kv.Range, yield func(kv.Entry, error) bool) {
	if err := r.begin(ctx); err != nil {
		yield(kv.Entry{}, err)
		return
	}
	if rng.End != nil && bytes.Compare(rng.Start, rng.End) >= 0 {
		r.life.Leave()
		return
	}
	r.life.Pin()
	it, err := src.NewIterWithContext(ctx, bounds(rng))
	r.life.Leave()
	if err != nil {
		// Nothing was yielded, so the error of release has no better place.
		if rerr := r.release(); rerr != nil {
			err = rerr
		}
		yield(kv.Entry{}, r.verdict(err))
		return
	}
	more := false // also when the loop body panics: then nothing may be yielded
	defer func() {
		cerr := it.Close()
		if rerr := r.release(); cerr == nil {
			cerr = rerr
		}
		if cerr != nil && more {
			yield(kv.Entry{}, r.verdict(cerr))
		}
	}()
	more = r.walk(ctx, it, rng, yield)
}

// walk yields the entries of it, and reports whether the consumer wants more.
func (r *reader) walk(ctx context.Context, it *pebble.Iterator, rng kv.Range, yield func(kv.Entry, error) bool) bool {
	// NextPrefix, because Next steps over all versions of the key that are in the memtable:
	// as many as there were commits since the last flush, if it is the head row of an actor.
	// (Of Pebble's default comparer the prefix is the key.)
	step, ok := it.NextPrefix, false
	if rng.Reverse {
		step, ok = it.Prev, it.Last()
	} else {
		ok = it.First()
	}
	n, own := 0, coversOwn(rng.Start, rng.End)
	for ; ok; ok = step() {
		if own && isOwn(it.Key()) {
			if rng.Reverse { // one of them has a version for each commit since the last flush
				step = func() bool { step = it.Prev; return it.SeekLT(versionKey) }
			}
			continue
		}
		v, err := it.ValueAndErr()
		if err == nil && n%ctxEvery == ctxEvery-1 {
			err = r.goingOn(ctx)
		}
		if err != nil {
			yield(kv.Entry{}, r.verdict(err))
			return false
		}
		if !yield(kv.Entry{Key: it.Key(), Value: v}, nil) {
			return false
		}
		if n++; n == rng.Limit {
			return true
		}
	}
	if err := r.verdict(it.Error()); err != nil {
		yield(kv.Entry{}, err)
		return false
	}
	return true
}

// goingOn says why a long scan must stop: its context is done, or its store is
// closed or poisoned.
func (r *reader) goingOn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.life.Closed() {
		return kv.ErrClosed
	}
	return r.fault.Get()
}

// bounds are the iterator options of rng. Pebble copies the bounds.
func bounds(rng kv.Range) *pebble.IterOptions {
	o := &pebble.IterOptions{UpperBound: rng.End}
	if len(rng.Start) > 0 {
		o.LowerBound = rng.Start
	}
	return o
}
