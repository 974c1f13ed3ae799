package pebblekv

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/greenroomdb/greenroom/kv"
)

// Limits of one commit. Pebble's batch is addressed with 32 bits: 4 GiB, of which
// every entry takes some bytes besides its key and value, and a cleared range may
// take more than it is long (see clearRange).
const (
	maxKey   = 1 << 20
	maxValue = 1 << 30
	maxOps   = 1 << 24
	maxBytes = 4<<30 - 1 - maxOps*opHeader - maxExpanded - 1<<24
)

const (
	// batchHeader is what Pebble puts before the operations of a batch, and
	// opHeader the most that it adds to the key and value of each.
	batchHeader = 12
	opHeader    = 11
	// retainBytes is the largest buffer that Pebble's pool of batches gets back from a
	// commit that fits into it: one with a full batch of an actor's writes (976 KiB and
	// some) has to fit. retainLarge is that of the others.
	retainBytes = 4 << 20
	retainLarge = 32 << 20

	// maxPoints and maxPointBytes are up to how many keys, and bytes of keys, a
	// range is cleared key by key.
	maxPoints     = 128
	maxPointBytes = 128 << 10
	// maxExpanded bounds, within a key's length, what the cleared keys of a commit
	// add to its batch.
	maxExpanded = 16 << 20
	// maxEarlier is how many operations before a cleared range are searched for
	// keys in it.
	maxEarlier = 1024
)

// firstKey is the smallest possible key. The empty key must never get into Pebble: when v2.1.7
// writes a table with a block of nothing but empty keys, it panics on a goroutine of its own (in
// PrefixBytesBuilder.Finish), where we can't recover. Package kv excludes the empty key for that
// reason.
var firstKey = []byte{0}

// measure checks c against Limits and returns what its batch takes, in bytes.
func measure(c *kv.Commit) (int, error) {
	if c.In != 0 {
		return 0, fmt.Errorf("pebblekv: %w", kv.ErrIncarnation)
	}
	if len(c.Ops) > maxOps {
		return 0, fmt.Errorf("pebblekv: %d operations: %w", len(c.Ops), kv.ErrTooLarge)
	}
	size := 0
	for i := range c.Ops {
		o := &c.Ops[i]
		end := o.Kind == kv.OpClearRange
		switch {
		case len(o.Key) > maxKey, end && len(o.Value) > maxKey:
			return 0, fmt.Errorf("pebblekv: op %d has a key over %d bytes: %w", i, maxKey, kv.ErrTooLarge)
		case len(o.Value) > maxValue:
			return 0, fmt.Errorf("pebblekv: op %d has a value of %d bytes: %w", i, len(o.Value), kv.ErrTooLarge)
		case o.Kind > kv.OpClearRange, end && len(o.Value) == 0, !end && (len(o.Key) == 0 || isOwn(o.Key)):
			return 0, fmt.Errorf("pebblekv: op %d: %w", i, kv.ErrInvalid)
		}
		if size += len(o.Key) + len(o.Value); size > maxBytes {
			return 0, fmt.Errorf("pebblekv: commit of over %d bytes: %w", maxBytes, kv.ErrTooLarge)
		}
	}
	return batchHeader + size + opHeader*len(c.Ops) + numberBytes, nil
}

// newBatch returns an empty batch with room for size bytes. Of one large commit after the
// other each finds the buffer of the last, if no collection came in between; a small one
// that finds such a buffer lets go of it, or it would be in use for ever.
func (w *committer) newBatch(size int) *pebble.Batch {
	retain := retainBytes
	if size > retainBytes {
		retain = retainLarge
	}
	return w.db.NewBatchWithSize(size, pebble.WithMaxRetainedSizeBytes(retain))
}

// encode copies the operations of c into b, which is empty, and says in e what it supposes to
// be stored.
func (w *committer) encode(b *pebble.Batch, c *kv.Commit, size int, e *encoding) (err error) {
	e.begin()
	patching := !hasRanges(c) // in which a row may be
	for i := range c.Ops {
		o := &c.Ops[i]
		var patch []byte
		if patching {
			patch = w.memory.patch(e, c.Ops[:i+1])
		}
		switch o.Kind {
		case kv.OpSet:
			if patch != nil {
				err = b.Merge(o.Key, patch, nil)
			} else {
				err = b.Set(o.Key, o.Value, nil)
			}
		case kv.OpClear:
			err = b.Delete(o.Key, nil)
		case kv.OpClearRange:
			err = w.clearAround(b, c, i, size+maxExpanded)
		}
		if err != nil {
			return wrap(err)
		}
	}
	return wrap(err)
}

// clearAround encodes the i-th operation of c, an OpClearRange, and keeps the
// store's own rows.
func (w *committer) clearAround(b *pebble.Batch, c *kv.Commit, i, longest int) error {
	start, end := c.Ops[i].Key, c.Ops[i].Value
	if !coversOwn(start, end) {
		return w.clearRange(b, c, i, longest, start, end)
	}
	if bytes.Compare(end, afterOwn) > 0 {
		if err := w.clearRange(b, c, i, longest, afterOwn, end); err != nil {
			return err
		}
	}
	return w.clearRange(b, c, i, longest, start, versionKey)
}

// clearRange encodes the clearing of [start, end), for the i-th operation of c.
//
// A range in which little is stored becomes deletions of its keys, because
// Pebble's range deletions are dear until they are flushed: whenever one is
// written, the next read sorts out all that are in the memtable. With 5,000 of
// them a commit and a read took 3 to 8 ms together, with deletions of single
// keys 2 µs. The keys are those stored now and those that c itself set before.
// b must not get longer than longest by that.
func (w *committer) clearRange(b *pebble.Batch, c *kv.Commit, i, longest int, start, end []byte) error {
	if len(start) == 0 {
		start = firstKey
	}
	if bytes.Compare(start, end) >= 0 {
		return nil
	}
	if b.Len() > longest || i > maxEarlier {
		return b.DeleteRange(start, end, nil)
	}
	it, err := w.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return err
	}
	few, err := clearFew(b, it)
	if err = errors.Join(err, it.Close()); err != nil || !few {
		// What can't be read can still be cleared.
		return b.DeleteRange(start, end, nil)
	}
	for j := range c.Ops[:i] {
		o := &c.Ops[j]
		if o.Kind != kv.OpSet || bytes.Compare(o.Key, start) < 0 || bytes.Compare(o.Key, end) >= 0 {
			continue
		}
		if b.Len() > longest {
			return b.DeleteRange(start, end, nil)
		}
		if err := b.Delete(o.Key, nil); err != nil {
			return err
		}
	}
	return nil
}

// clearFew deletes the keys of it and reports true, or nothing and reports false
// when there are too many.
func clearFew(b *pebble.Batch, it *pebble.Iterator) (bool, error) {
	n, size := 0, 0
	for ok := it.First(); ok; ok = it.NextPrefix() { // see walk
		n, size = n+1, size+len(it.Key())
		if n > maxPoints || size > maxPointBytes {
			return false, nil
		}
	}
	if n == 0 || it.Error() != nil {
		return true, it.Error()
	}
	for ok := it.First(); ok; ok = it.NextPrefix() {
		if err := b.Delete(it.Key(), nil); err != nil {
			return false, err
		}
	}
	return true, it.Error()
}
