package readahead

import (
	"context"
	"errors"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// A farView is the source of a view on a far engine. The cache of the Store is for
// actors that it owns, so a view has a little one of its own: what was read ahead,
// until that is used. What a view shows doesn't change, so there is nothing to it.
type farView struct {
	*actorstore.View

	mu    sync.Mutex
	pages map[string][]byte // nil for what isn't there  +checklocks:mu
	order []string          // of pages, oldest first  +checklocks:mu
	bytes int               // +checklocks:mu
}

// viewBytes bounds the pages that a farView keeps. It has room for the windows of some
// scans.
const viewBytes = 8 << 20

func newView(v *actorstore.View) *farView { return &farView{View: v, pages: map[string][]byte{}} }

// OfView returns the source that is v. On a far engine it keeps in memory what was read ahead. The caller keeps v open.
func OfView(v *actorstore.View) chunked.Source {
	if v.Far() {
		return newView(v)
	}
	return nearView{v}
}

// Snapshot is the view itself.
func (v *farView) Snapshot(context.Context) (chunked.Snapshot, error) { return pinnedView{v}, nil }

// A pinnedView is a farView that its owner closes.
type pinnedView struct{ *farView }

var _ fetcher = pinnedView{}

// Close does nothing.
func (pinnedView) Close() error { return nil }

// Page is the Reader's.
func (v *farView) Page(ctx context.Context, key, dst []byte) ([]byte, error) {
	v.mu.Lock()
	b, ok := v.pages[string(key)]
	v.mu.Unlock()
	switch {
	case ok && len(b) == 0:
		return dst, actorstore.ErrNotFound
	case ok:
		return append(dst, b...), nil
	}
	out, err := v.View.Page(ctx, key, dst)
	switch {
	case err == nil:
		v.keep(key, out[len(dst):])
	case errors.Is(err, actorstore.ErrNotFound):
		v.keep(key, nil)
	}
	return out, err
}

// Cached is the fetcher's.
func (v *farView) Cached(key []byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.pages[string(key)]
	return ok
}

// Prefetch is the fetcher's.
func (v *farView) Prefetch(ctx context.Context, start, end []byte, limit int) (n int, err error) {
	for e, err := range v.List(ctx, actorstore.ListOptions{Start: start, End: end, Limit: limit}) {
		if err != nil {
			return n, err
		}
		v.keep(e.Key, e.Value)
		n++
	}
	return n, nil
}

// Preload is the view's, and keeps what it reads.
func (v *farView) Preload(ctx context.Context, ranges []actorstore.KeyRange, each func(actorstore.Entry) error) error {
	return v.View.Preload(ctx, ranges, func(e actorstore.Entry) error {
		v.keep(e.Key, e.Value)
		return each(e)
	})
}

// keep keeps a page, and forgets the oldest ones.
func (v *farView) keep(key, value []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.pages[string(key)]; ok || len(value) > chunked.Size {
		return // it isn't a page, or is here
	}
	k := string(key)
	v.pages[k] = append([]byte(nil), value...)
	v.order = append(v.order, k)
	v.bytes += len(value)
	for v.bytes > viewBytes {
		old := v.order[0]
		v.bytes -= len(v.pages[old])
		delete(v.pages, old)
		v.order = v.order[1:] // what append moves to a larger array is without it
	}
}

// A nearView is the source of a view on a near engine.
type nearView struct{ *actorstore.View }

// Snapshot returns the view itself: it is pinned already, and its owner's to close.
func (s nearView) Snapshot(context.Context) (chunked.Snapshot, error) {
	return borrowed{s.View}, nil
}

type borrowed struct{ actorstore.Reader }

func (borrowed) Close() error { return nil }
