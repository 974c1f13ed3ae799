package traces

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// maxIndexNotes is how many index notes there are at most: half of the notes that an actor
// may have. With more, the oldest are removed, and a search for an old trace reads more.
const maxIndexNotes = actorstore.MaxNotes / 2

// notesOfCommit is how many notes are removed with one commit.
const notesOfCommit = 100

// trimRetry is when trimming is tried again that failed, and how often it is at most.
const trimRetry = time.Minute

// Trim removes what Options.MaxAge and MaxBytes don't keep, as happens by itself when a
// chunk is written and when time passes. It reports how many buckets it removed: each with
// one commit, and one for every hundred notes about them.
func (t *Traces) Trim(ctx context.Context) (buckets int, err error) {
	t.trimming.Lock()
	defer t.trimming.Unlock()
	for {
		first, err := t.firstChunk(ctx)
		if err != nil {
			return buckets, fmt.Errorf("traces: trim: %w", err)
		}
		if !t.expired(first) {
			if err := t.sweep(ctx, first); err != nil {
				return buckets, fmt.Errorf("traces: trim: %w", err)
			}
			return buckets, nil
		}
		if err := t.removeBucket(ctx, first.value.bucket); err != nil {
			return buckets, fmt.Errorf("traces: trim: bucket %d: %w", first.value.bucket, err)
		}
		buckets++
	}
}

// trimQuietly is Trim by the writer.
func (t *Traces) trimQuietly() {
	t.mu.Lock()
	t.trimAt = t.now() + uint64(trimRetry)
	t.unlock()
	if _, err := t.Trim(t.ctx); err != nil && t.ctx.Err() == nil && !errors.Is(err, ErrClosed) {
		t.log.Warn("traces: not trimmed", "actor", t.actor.ID(), "err", err)
	}
}

// firstChunk returns the key of the first chunk there is.
func (t *Traces) firstChunk(ctx context.Context) (k optional[chunkKey], err error) {
	start, end := chunksRange(t.actor.Layout())
	snap, err := t.actor.Snapshot(ctx)
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	for e, err := range snap.Survey(ctx, start, end) {
		if err != nil && (e.Key == nil || !errors.Is(err, actorstore.ErrCorrupt)) {
			return k, err
		}
		if key, ok := parseChunkKey(snap.Layout(), e.Key); ok {
			return some(key), nil // damaged or not, it is for the bucket to go
		}
	}
	return k, nil
}

// expired reports whether the bucket of a chunk is to be removed, and if not, notes when to
// look again.
func (t *Traces) expired(k optional[chunkKey]) bool {
	t.mu.Lock()
	defer t.unlock()
	now := t.now()
	if !k.set {
		t.trimAt = math.MaxUint64
		if t.opts.MaxAge > 0 {
			t.trimAt = now + uint64(t.opts.MaxAge)
		}
		return false
	}
	old := t.opts.MaxAge > 0 && t.oldAt(k.value.bucket) <= now
	large := t.opts.MaxBytes > 0 && t.index.bytes > t.opts.MaxBytes && t.index.newerThan(k.value.bucket)
	if (old || large) && !t.live(k.value.bucket) {
		return true // else the buckets behind it are newer
	}
	t.trimAt = math.MaxUint64
	if t.opts.MaxAge > 0 {
		t.trimAt = max(t.oldAt(k.value.bucket), now+uint64(trimRetry))
	}
	return false
}

// oldAt returns when, in Unix ns, all that a bucket may have is older than Options.MaxAge.
// Nothing says how long the buckets of other writers are, or were here with other options:
// they are taken to be of the usual length at least.
func (t *Traces) oldAt(start int64) uint64 {
	return uint64(start)*1e9 + uint64(max(t.opts.BucketSize, defaultBucketSize)) + uint64(t.opts.MaxAge)
}

// live reports whether something of the bucket is still to be written.
//
// +checklocks:t.mu
func (t *Traces) live(start int64) bool {
	for _, b := range t.open {
		if b.bucket.start == start {
			return true
		}
	}
	for _, p := range t.queue {
		if p.bucket.start == start {
			return true
		}
	}
	return false
}

// newerThan reports whether there is a newer bucket: the newest one stays.
func (x *index) newerThan(start int64) bool {
	for k, n := range x.buckets {
		if k > start && n.chunks > 0 {
			return true
		}
	}
	return false
}

// several reports whether there is more than one bucket.
func (x *index) several() bool {
	full := 0
	for _, n := range x.buckets {
		if n.chunks > 0 {
			full++
		}
	}
	return full > 1
}

// removeBucket removes the chunks of a bucket with one range delete. What the notes say of
// it is removed by sweep.
func (t *Traces) removeBucket(ctx context.Context, start int64) error {
	var b batch.Batch
	b.DeleteRange(bucketStart(t.actor.Layout(), start), bucketStart(t.actor.Layout(), start+1))
	t.In(&b).emptied = some(start)
	if err := t.actor.Apply(ctx, &b); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.unlock()
	t.stats.Trimmed++
	t.count(metricTrimmed, 1)
	// A span may run for longer than anything is kept.
	for s := t.oldest; s != nil; s = s.next {
		if s.start.bucket.start <= start && (!s.snapshot.set || s.snapshot.value.bucket.start <= start) {
			s.lost, t.lost = true, true
		}
	}
	return nil
}

// empty has the notes land with b of a bucket that has no chunks any more.
//
// +checklocks:tx.t.mu
func (tx *Tx) empty(b *batch.Batch) error {
	if !tx.emptied.set {
		return nil
	}
	start := tx.emptied.value
	n := tx.notes(start)
	n.chunks, n.bytes, n.tail = 0, 0, nil
	tx.buckets[start] = n
	if !n.stored {
		return nil
	}
	return tx.t.actor.StageNote(b, ledgerKey(start), n.ledger.append(nil))
}

// sweep removes the notes about buckets that are not there any more: those before the first
// chunk; and the oldest of the index, if there are too many.
func (t *Traces) sweep(ctx context.Context, first optional[chunkKey]) error {
	before := int64(math.MaxInt64)
	if first.set {
		before = first.value.bucket
	}
	t.mu.Lock()
	stale, excess := false, t.index.notes-maxIndexNotes
	if excess > 0 {
		excess += maxIndexNotes / 8 // so that it isn't for one note each time
	}
	for start, n := range t.index.buckets {
		stale = stale || start < before && n.chunks == 0
	}
	t.unlock()
	if !stale && excess <= 0 {
		return nil
	}
	index, ledgers, err := t.staleNotes(ctx, before, excess)
	if err != nil {
		return err
	}
	// The ledgers last: as long as one is there, it is swept some day.
	for _, keys := range [][][]byte{index, ledgers} {
		for len(keys) > 0 {
			n := min(len(keys), notesOfCommit)
			if err := t.removeNotes(ctx, keys[:n], before); err != nil {
				return err
			}
			keys = keys[n:]
		}
	}
	return nil
}

// staleNotes returns the keys of notes about buckets before one, and of the oldest excess
// notes of the index.
func (t *Traces) staleNotes(ctx context.Context, before int64, excess int) (index, ledgers [][]byte, err error) {
	snap, err := t.actor.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	for n, err := range snap.Notes(ctx, notePrefix()) {
		if err != nil {
			return nil, nil, err
		}
		k, kind, ok := parseNoteKey(n.Key)
		if !ok {
			continue
		}
		key := append([]byte(nil), n.Key...)
		switch {
		case kind == noteIndex && (k.bucket < before || excess > 0):
			excess--
			index = append(index, key)
		case kind == noteLedger && k.bucket < before:
			ledgers = append(ledgers, key)
		}
	}
	return index, ledgers, nil
}

// removeNotes removes notes of buckets before one, unless these have got chunks meanwhile,
// and notes of other buckets.
func (t *Traces) removeNotes(ctx context.Context, keys [][]byte, before int64) error {
	var b batch.Batch
	tx := t.In(&b)
	tx.stale, tx.before = keys, before
	return t.actor.Apply(ctx, &b)
}

// forget has b remove notes, as removeNotes says.
//
// +checklocks:tx.t.mu
func (tx *Tx) forget(b *batch.Batch) error {
	for _, key := range tx.stale {
		k, kind, _ := parseNoteKey(key)
		n := tx.notes(k.bucket)
		if k.bucket < tx.before && n.chunks > 0 {
			continue
		}
		if n.tailAt == k {
			n.tail = nil // the next chunk begins a note of its own
		}
		if kind == noteIndex {
			tx.more--
		} else {
			n.stored, n.ledger = false, ledger{next: n.next}
		}
		tx.buckets[k.bucket] = n
		if err := tx.t.actor.StageNote(b, key, nil); err != nil {
			return err
		}
	}
	return nil
}

// setTrim notes when to trim first: at once if there is something that the index knows
// nothing of.
func (t *Traces) setTrim(c *catalog, chunks bool) {
	t.trimAt = math.MaxUint64
	if chunks && len(c.ledgers) == 0 {
		t.trimAt = 0
	}
	for start, l := range c.ledgers {
		if l.chunks == 0 {
			t.trimAt = 0 // it is left over
		}
		if t.opts.MaxAge > 0 {
			t.trimAt = min(t.trimAt, t.oldAt(start))
		}
	}
	if t.opts.MaxBytes > 0 && t.index.bytes > t.opts.MaxBytes && len(c.ledgers) > 1 {
		t.trimAt = 0
	}
}
