package queue

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore"
)

// pageSize is how many messages are read at once.
const pageSize = 1000

// An entry is a key among the messages with its value, or with what is wrong with the
// rows of that. The slices are its own.
type entry struct {
	key, value []byte
	err        error
}

// entries yields the keys of the messages' namespace from start on, page by page. Damage
// of one ends nothing; any other error does.
func entries(ctx context.Context, snap *actorstore.Snapshot, start []byte) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		first, end := snap.Layout().Range(actorstore.NamespaceQueue)
		w := walk{snap: snap, next: first, end: end, yield: func(e entry) bool { return yield(e, nil) }}
		if bytes.Compare(start, first) > 0 {
			w.next = start
		}
		for !w.over {
			if err := w.page(ctx); err != nil {
				yield(entry{}, err)
				return
			}
		}
	}
}

// A walk is one iteration of entries.
type walk struct {
	snap      *actorstore.Snapshot
	next, end []byte // what is left
	yield     func(entry) bool
	over      bool // nothing is left, or the caller wants no more
}

// page yields the next keys.
func (w *walk) page(ctx context.Context) error {
	n := 0
	for e, err := range w.snap.List(ctx, actorstore.ListOptions{Start: w.next, End: w.end, Limit: pageSize}) {
		if errors.Is(err, actorstore.ErrCorrupt) {
			return w.carefully(ctx)
		}
		if err != nil {
			return err
		}
		n++
		if w.found(entry{key: bytes.Clone(e.Key), value: bytes.Clone(e.Value)}); w.over {
			return nil
		}
	}
	w.over = n < pageSize
	return nil
}

// carefully is page where rows are damaged: it asks for each key by itself.
func (w *walk) carefully(ctx context.Context) error {
	n := 0
	for e, err := range w.snap.Survey(ctx, w.next, w.end) {
		if err != nil && (e.Key == nil || !errors.Is(err, actorstore.ErrCorrupt)) {
			return err
		}
		found := entry{key: bytes.Clone(e.Key), err: err}
		if err == nil {
			found.value, found.err = w.snap.Get(ctx, found.key, []byte{})
		}
		if found.err != nil && !errors.Is(found.err, actorstore.ErrCorrupt) {
			return found.err
		}
		n++
		if w.found(found); w.over || n == pageSize {
			return nil
		}
	}
	w.over = true
	return nil
}

// found yields e; the walk goes on behind it.
func (w *walk) found(e entry) {
	w.next = append(bytes.Clone(e.key), 0)
	w.over = !w.yield(e)
}
