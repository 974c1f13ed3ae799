package traces

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
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

// A trimmer removes what isn't kept.
type trimmer struct {
	st *store
	mu sync.Mutex // held while it trims, and taken before that of the store
}

// trim removes what Options.MaxAge and MaxBytes don't keep, as happens by itself when a
// chunk is written and when time passes. It reports how many buckets it removed: each with
// one commit, and one for every hundred notes about them.
func (tr *trimmer) trim(ctx context.Context) (buckets int, err error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for {
		first, err := tr.firstChunk(ctx)
		if err != nil {
			return buckets, fmt.Errorf("traces: trim: %w", err)
		}
		if !tr.expired(first) {
			if err := tr.sweep(ctx, first); err != nil {
				return buckets, fmt.Errorf("traces: trim: %w", err)
			}
			return buckets, nil
		}
		if err := tr.removeBucket(ctx, first.value.bucket); err != nil {
			return buckets, fmt.Errorf("traces: trim: bucket %d: %w", first.value.bucket, err)
		}
		buckets++
	}
}

// quietly is trim by the writer.
func (tr *trimmer) quietly(ctx context.Context) {
	st := tr.st
	st.mu.Lock()
	st.trimAt = st.now() + uint64(trimRetry)
	st.unlock()
	if _, err := tr.trim(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, ErrClosed) {
		st.log.Warn("traces: not trimmed", "actor_id", st.actor.ID(), "err", err)
	}
}

// firstChunk returns the key of the first chunk there is.
func (tr *trimmer) firstChunk(ctx context.Context) (k optional[chunkKey], err error) {
	st := tr.st
	start, end := chunksRange(st.actor.Layout())
	snap, err := st.actor.Snapshot(ctx)
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	for key, err := range surveyed(ctx, snap, start, end) {
		return some(key), err // damaged or not, it is for the bucket to go
	}
	return k, nil
}

// expired reports whether the bucket of a chunk is to be removed, and if not, notes when to
// look again.
func (tr *trimmer) expired(k optional[chunkKey]) bool {
	st := tr.st
	st.mu.Lock()
	defer st.unlock()
	now := st.now()
	if !k.set {
		st.trimAt = math.MaxUint64
		if st.opts.MaxAge > 0 {
			st.trimAt = now + uint64(st.opts.MaxAge)
		}
		return false
	}
	old := st.opts.MaxAge > 0 && st.oldAt(k.value.bucket) <= now
	large := st.opts.MaxBytes > 0 && st.index.bytes > st.opts.MaxBytes && st.index.newerThan(k.value.bucket)
	if (old || large) && !st.live(k.value.bucket) {
		return true // else the buckets behind it are newer
	}
	st.trimAt = math.MaxUint64
	if st.opts.MaxAge > 0 {
		st.trimAt = max(st.oldAt(k.value.bucket), now+uint64(trimRetry))
	}
	return false
}

// removeBucket removes the chunks of a bucket with one range delete. What the notes say of
// it is removed by sweep.
func (tr *trimmer) removeBucket(ctx context.Context, start int64) error {
	st := tr.st
	var b batch.Batch
	b.DeleteRange(bucketStart(st.actor.Layout(), start), bucketStart(st.actor.Layout(), start+1))
	st.in(&b).emptied = some(start)
	if err := st.actor.Apply(ctx, &b); err != nil {
		return err
	}
	st.mu.Lock()
	defer st.unlock()
	st.stats.Trimmed++
	st.count(metricTrimmed, 1)
	// A span may run for longer than anything is kept.
	for s := st.running.oldest; s != nil; s = s.next {
		if s.start.bucket.start <= start && (!s.snapshot.set || s.snapshot.value.bucket.start <= start) {
			s.lost, st.running.lost = true, true
		}
	}
	return nil
}

// sweep removes the notes about buckets that are not there any more: those before the first
// chunk; and the oldest of the index, if there are too many.
func (tr *trimmer) sweep(ctx context.Context, first optional[chunkKey]) error {
	st := tr.st
	before := int64(math.MaxInt64)
	if first.set {
		before = first.value.bucket
	}
	st.mu.Lock()
	stale, excess := false, st.index.notes-maxIndexNotes
	if excess > 0 {
		excess += maxIndexNotes / 8 // so that it isn't for one note each time
	}
	for start, n := range st.index.buckets {
		stale = stale || start < before && n.chunks == 0
	}
	st.unlock()
	if !stale && excess <= 0 {
		return nil
	}
	index, ledgers, err := tr.staleNotes(ctx, before, excess)
	if err != nil {
		return err
	}
	// The ledgers last: as long as one is there, it is swept some day.
	for _, keys := range [][][]byte{index, ledgers} {
		for len(keys) > 0 {
			n := min(len(keys), notesOfCommit)
			if err := tr.removeNotes(ctx, keys[:n], before); err != nil {
				return err
			}
			keys = keys[n:]
		}
	}
	return nil
}

// staleNotes returns the keys of notes about buckets before one, and of the oldest excess
// notes of the index.
func (tr *trimmer) staleNotes(ctx context.Context, before int64, excess int) (index, ledgers [][]byte, err error) {
	st := tr.st
	snap, err := st.actor.Snapshot(ctx)
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
func (tr *trimmer) removeNotes(ctx context.Context, keys [][]byte, before int64) error {
	st := tr.st
	var b batch.Batch
	tx := st.in(&b)
	tx.stale, tx.before = keys, before
	return st.actor.Apply(ctx, &b)
}
