package pebblekv

import (
	"bytes"
	"context"
	"io"
	"iter"

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

// Get appends the newest value of key to dst. See kv.Reader.
func (d *DB) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if err := d.begin(ctx); err != nil {
		return dst, err
	}
	defer d.life.Leave()
	if out, ok := d.recent.get(key, dst); ok {
		return out, nil
	}
	return d.get(d.newest, key, dst)
}

// get reads from src and copies out of Pebble's memory, which is only valid
// until the closer is closed.
func (d *DB) get(src getter, key, dst []byte) ([]byte, error) {
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
		if bad := d.fault.Get(); bad != nil {
			err = bad
		}
		return dst, err
	}
	out := append(dst, v...)
	if err := d.verdict(closer.Close()); err != nil {
		return dst, err
	}
	return out, nil
}

// Scan yields the entries of r in the state at the start of the iteration. See
// kv.Reader.
func (d *DB) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) { d.scan(ctx, d.newest, r, yield) }
}

// scan runs one iteration over src.
func (d *DB) scan(ctx context.Context, src scanner, r kv.Range, yield func(kv.Entry, error) bool) {
	if err := d.begin(ctx); err != nil {
		yield(kv.Entry{}, err)
		return
	}
	if r.End != nil && bytes.Compare(r.Start, r.End) >= 0 {
		d.life.Leave()
		return
	}
	d.life.Pin()
	it, err := src.NewIterWithContext(ctx, bounds(r))
	d.life.Leave()
	if err != nil {
		// Nothing was yielded, so the error of release has no better place.
		if rerr := d.release(); rerr != nil {
			err = rerr
		}
		yield(kv.Entry{}, d.verdict(err))
		return
	}
	more := false // also when the loop body panics: then nothing may be yielded
	defer func() {
		cerr := it.Close()
		if rerr := d.release(); cerr == nil {
			cerr = rerr
		}
		if cerr != nil && more {
			yield(kv.Entry{}, d.verdict(cerr))
		}
	}()
	more = d.walk(ctx, it, r, yield)
}

// walk yields the entries of it, and reports whether the consumer wants more.
func (d *DB) walk(ctx context.Context, it *pebble.Iterator, r kv.Range, yield func(kv.Entry, error) bool) bool {
	// NextPrefix, because Next steps over all versions of the key that are in the memtable:
	// as many as there were commits since the last flush, if it is the head row of an actor.
	// (Of Pebble's default comparer the prefix is the key.)
	step, ok := it.NextPrefix, false
	if r.Reverse {
		step, ok = it.Prev, it.Last()
	} else {
		ok = it.First()
	}
	n, own := 0, coversOwn(r.Start, r.End)
	for ; ok; ok = step() {
		if own && isOwn(it.Key()) {
			if r.Reverse { // one of them has a version for each commit since the last flush
				step = func() bool { step = it.Prev; return it.SeekLT(versionKey) }
			}
			continue
		}
		v, err := it.ValueAndErr()
		if err == nil && n%ctxEvery == ctxEvery-1 {
			err = d.goingOn(ctx)
		}
		if err != nil {
			yield(kv.Entry{}, d.verdict(err))
			return false
		}
		if !yield(kv.Entry{Key: it.Key(), Value: v}, nil) {
			return false
		}
		if n++; n == r.Limit {
			return true
		}
	}
	if err := d.verdict(it.Error()); err != nil {
		yield(kv.Entry{}, err)
		return false
	}
	return true
}

// goingOn says why a long scan must stop: its context is done, or its store is
// closed or poisoned.
func (d *DB) goingOn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.life.Closed() {
		return kv.ErrClosed
	}
	return d.fault.Get()
}

// bounds are the iterator options of r. Pebble copies the bounds.
func bounds(r kv.Range) *pebble.IterOptions {
	o := &pebble.IterOptions{UpperBound: r.End}
	if len(r.Start) > 0 {
		o.LowerBound = r.Start
	}
	return o
}
