package itemstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/tuple"
)

// Swept says what a Sweep did.
type Swept struct {
	Items     int // that had ended, and were deleted
	Deletions int // that the log forgot
}

// Sweep deletes the items that have ended, which no read sees any more. The log forgets the
// deletions that are older than Options.TombstoneAge. It works in transactions of some hundred, and
// may be called by several processes at once; a program calls it now and then.
func (s *Store) Sweep(ctx context.Context) (Swept, error) {
	var all Swept
	for {
		var some Swept
		err := s.Update(ctx, func(tx *Tx) (err error) {
			some, err = tx.p.sweep(ctx)
			return err
		})
		all.Items += some.Items
		all.Deletions += some.Deletions
		if err != nil || some == (Swept{}) {
			s.meter.Count(itemsEnded, int64(all.Items))
			return all, err
		}
	}
}

// sweep does what is due, as far as one transaction goes.
func (w *putter) sweep(ctx context.Context) (Swept, error) {
	var some Swept
	start := w.keys.key(partDue)
	end := w.keys.key(partDue, tuple.AppendInt(nil, w.now.Unix()+1))
	var list []due
	for e, err := range w.tx.Scan(ctx, kv.Range{Start: start, End: end, Limit: deleteBatch}) {
		if err != nil {
			return some, err
		}
		d, err := parseDue(w.keys.rest(e.Key))
		if err != nil {
			return some, err
		}
		list = append(list, d)
	}
	for _, d := range list {
		if w.size > batchBytes {
			break
		}
		if d.log {
			some.Deletions++
			w.size += keyCopies * len(d.path)
			if err := w.forget(d); err != nil {
				return some, err
			}
			continue
		}
		some.Items++
		if err := w.tx.Clear(w.keys.dueItem(d.unix, d.path)); err != nil {
			return some, err
		}
		if err := w.delete(ctx, d.path); err != nil {
			return some, err
		}
	}
	return some, nil
}

// forget removes a deletion from the log of its group. A client that hasn't seen it starts over.
func (w *putter) forget(d due) error {
	key := w.keys.dueLog(d.unix, d.at, d.path)
	if err := w.tx.Clear(key); err != nil {
		return err
	}
	if err := w.tx.Clear(w.keys.logKey(d.path, d.at)); err != nil {
		return err
	}
	return w.tx.Atomic(txn.MutationByteMax, w.keys.key(partForgot, group(d.path)), d.at[:])
}

// Building returns the key paths that aren't there for all items yet. Until they are, a
// list of them lacks what was put before they were published.
func (s *Store) Building(ctx context.Context) (list []Building, err error) {
	err = s.View(ctx, func(tx *Tx) error {
		list = nil
		for row, err := range keys.All[buildKey](ctx, s.keys.in(tx.p.tx), tuple.Subspace{}, nil) {
			if err != nil {
				return err
			}
			list = append(list, row.Value)
		}
		return nil
	})
	return list, err
}

// Build builds the key paths that aren't there for all items yet. It works in small
// transactions while others write; it can be ended at any time and goes on where it was, also in another
// process. A program calls it after it has opened the store with a new version of its schema, which must be
// the newest one. Items whose path another item has go without it; see Building.
func (s *Store) Build(ctx context.Context) error {
	for {
		more, built := false, 0
		err := s.Update(ctx, func(tx *Tx) error {
			more, built = false, 0
			for row, err := range keys.All[buildKey](ctx, s.keys.in(tx.p.tx), tuple.Subspace{}, nil) {
				if err != nil {
					return err
				}
				more = true
				built, err = tx.p.build(ctx, row.Key, row.Value)
				return err
			}
			return nil
		})
		if err != nil || !more {
			return err
		}
		s.meter.Count(itemsBuilt, int64(built))
	}
}

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

// Check reads all rows of the store, in one state, and returns what doesn't fit together: rows of
// aliases without their items, items without their rows, a log or a list of what ends that says something
// else. It takes as long as reading the store does, and changes nothing.
func (s *Store) Check(ctx context.Context) (problems []Problem, err error) {
	opts := s.opts.Transactions
	opts.MaxAge = -1
	db, err := txn.New(s.db.Engine(), &opts)
	if err != nil {
		return nil, err
	}
	err = db.View(ctx, func(t *txn.Tx) error {
		tx, err := s.Begin(ctx, t)
		if err != nil {
			return err
		}
		c := &checker{view: &tx.p.view}
		err = c.run(ctx)
		problems = c.problems
		return err
	})
	return problems, err
}

var (
	filterMismatches = &metrics.Metric{Kind: metrics.Counter, Name: "itemstore_filter_mismatches", Help: "Items that a filter's condition did not fit"}
	itemsEnded       = &metrics.Metric{Kind: metrics.Counter, Name: "itemstore_items_ended", Help: "Items that had ended and were deleted"}
	itemsBuilt       = &metrics.Metric{Kind: metrics.Counter, Name: "itemstore_items_built", Help: "Items that got a new key path"}
)

// Metrics returns what a Store counts, beside what its transactions do, for a Sink that wants to know beforehand.
func Metrics() []*metrics.Metric {
	return []*metrics.Metric{filterMismatches, itemsEnded, itemsBuilt}
}
