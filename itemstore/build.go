package itemstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/kv/keys"
)

// buildBatch is how many items Build puts in one transaction; it looks at some more.
const buildBatch = 50

// build gives some items a new key path, and returns how many.
func (w *putter) build(ctx context.Context, key buildKey, row Building) (built int, err error) {
	b, err := w.types.bound(key.Type)
	if err != nil {
		return 0, err
	}
	if w.schema != w.types.head.version {
		return 0, fmt.Errorf("%w: key paths are built by programs of version %d of the schema", ErrIncompatible, w.types.head.version)
	}
	if b.itemType == nil && !b.newest.Removed {
		return 0, fmt.Errorf("%w: %s: a program with its codec builds its key paths", ErrUnknownType, b.newest.Name)
	}
	start := w.keys.key(partItem)
	end, looked, done := after(start), 0, true
	var found [][]byte
	for at, err := range w.scan(ctx, append(start, row.Next...), end, false) {
		if err != nil {
			return 0, err
		}
		place := bytes.Clone(w.keys.rest(at.key))
		if looked++; looked > 20*buildBatch || len(found) == buildBatch {
			row.Next, done = place, false
			break
		}
		if at.rec.kind == rowPrimary && at.rec.typ == key.Type {
			found = append(found, place)
		}
	}
	for _, primary := range found {
		if w.size > batchBytes {
			row.Next, done = primary, false
			break
		}
		row.Items++
		ok, err := w.again(ctx, b, primary, key.Path)
		switch {
		case errors.Is(err, ErrPathTaken):
			if row.Taken++; ok {
				built++
			}
			w.opts.Logger.Warn("itemstore: an item goes without a new key path", slog.String("type", b.newest.Name), slog.Any("error", err))
		case err != nil:
			return 0, err
		case ok:
			built++
		}
	}
	if done {
		return built, keys.Delete(w.keys.in(w.tx), key)
	}
	return built, keys.Put(w.keys.in(w.tx), key, row)
}

// again puts an item as it is, if it then gets more paths, and reports whether it did. It goes without those that
// another item has. If the key path of the number is one of them, the error is a *PathTakenError.
func (w *putter) again(ctx context.Context, b *bound, primary []byte, number uint64) (bool, error) {
	ch, err := w.change(ctx, primary)
	if err != nil || ch.new == nil || ch.new.expired(w.now) || b.itemType == nil {
		return false, err
	}
	payload, err := w.payload(ctx, ch.new, primary)
	if err != nil {
		return false, err
	}
	c, err := b.content(payload)
	if err == nil {
		err = c.keep(payload)
	}
	if err != nil {
		return false, err
	}
	d, err := w.compose(&c, ch, ch.new, time.UnixMicro(ch.new.created), time.UnixMicro(ch.new.modified))
	if err != nil {
		return false, err
	}
	d.rec.expires = ch.new.expires
	var taken error
	for i, e := range slices.Backward(d.rec.paths) {
		p := b.newest.path(e.number)
		if p.index() {
			continue
		}
		owner, err := w.owner(ctx, place{p, e.key, w.keys.key(partItem, e.key), nil})
		if err != nil {
			return false, err
		}
		if owner == nil || bytes.Equal(owner, primary) {
			continue
		}
		if e.number == number {
			taken = &PathTakenError{w.name(e.key), w.name(owner)}
		}
		d.rec.paths = slices.Delete(d.rec.paths, i, i+1)
	}
	if len(d.rec.paths) == len(ch.new.paths) {
		return false, taken
	}
	if err := w.replace(ch, d.rec, d.payload); err != nil {
		return false, err
	}
	return true, taken
}
