package traces

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// minBackoff is the time after the first attempt that failed.
const minBackoff = 100 * time.Millisecond

// maxNap bounds how long the writer sleeps: times of day move when a clock is set.
const maxNap = time.Minute

// kick tells the writer to look what there is to do.
func (t *Traces) kick() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// write is the writer: the one goroutine that writes chunks, each with one commit, in the
// order in which they were cut, and removes what is too old. A chunk that can't be written
// stays at the head and is tried again, so that an error ends nothing.
func (t *Traces) write() {
	defer close(t.done)
	for t.ctx.Err() == nil {
		p, trim, nap := t.next(time.Now())
		switch {
		case p != nil:
			t.attempt(p)
		case trim:
			t.trimQuietly()
		default:
			t.nap(nap)
		}
	}
}

// nap sleeps until there may be something to do.
func (t *Traces) nap(d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.wake:
	case <-t.ctx.Done():
	}
}

// next cuts what is old enough, and returns the chunk to be written now, which it claims;
// or that it is time to trim; or for how long there is nothing to do.
func (t *Traces) next(now time.Time) (p *pending, trim bool, nap time.Duration) {
	t.mu.Lock()
	defer t.unlock()
	nap = maxNap
	if t.failed != nil {
		return nil, false, nap
	}
	for i := len(t.open) - 1; i >= 0; i-- {
		b := t.open[i]
		if left := b.begun.Add(t.opts.ChunkAge).Sub(now); left > 0 {
			nap = min(nap, left)
		} else {
			t.cut(b)
		}
	}
	for _, p := range t.queue {
		if p.state != waiting {
			continue
		}
		if left := t.retryAt.Sub(now); left > 0 && len(t.flushes) == 0 {
			nap = min(nap, left)
			break
		}
		p.state = writing
		for _, f := range t.flushes {
			f.tried = true
		}
		return p, false, 0
	}
	if at := t.now(); t.trimAt <= at {
		return nil, true, 0
	} else if left := time.Duration(min(t.trimAt-at, uint64(maxNap))); left < nap {
		nap = left
	}
	return nil, false, nap
}

// attempt tries to write a chunk.
func (t *Traces) attempt(p *pending) {
	begin := time.Now()
	err := t.commit(p)
	t.mu.Lock()
	defer t.unlock()
	t.observe(metricWrite, time.Since(begin))
	if t.stats.LastWriteError = err; err == nil {
		t.retryAt, t.backoff = time.Time{}, 0
		return
	}
	t.unclaim(p)
	if t.closed || t.ctx.Err() != nil && errors.Is(err, t.ctx.Err()) {
		return // closing: it isn't wanted any more
	}
	t.stats.Retries++
	t.count(metricRetries, 1)
	t.failedAttempt(p, fmt.Errorf("traces: write chunk %d/%d: %w", p.bucket.start, p.number, err))
}

// failedAttempt decides what becomes of a chunk that could not be written.
//
// +checklocks:t.mu
func (t *Traces) failedAttempt(p *pending, err error) {
	p.refused++
	if !hopeless(err) {
		p.refused = 0
	}
	switch {
	case final(err):
		// The handle is of no use any more, and what is not written never will be.
		t.failed = err
		t.giveUp(err)
		t.later(func() { t.log.Error("traces: recording has ended", "actor", t.actor.ID(), "err", err) })
	case p.refused >= hopelessTries:
		// The chunks behind it must not wait for ever.
		t.later(func() { t.log.Error("traces: chunk dropped", "actor", t.actor.ID(), "records", p.count, "err", err) })
		if i := slices.Index(t.queue, p); i >= 0 {
			t.drop(i)
		}
	default:
		t.backoff = min(max(2*t.backoff, minBackoff), t.opts.MaxBackoff)
		t.retryAt = time.Now().Add(t.backoff)
		t.failFlushes(err)
		pending, again := len(t.queue), t.backoff
		t.later(func() {
			t.log.Warn("traces: chunk not written", "actor", t.actor.ID(), "pending", pending, "again in", again, "err", err)
		})
	}
}

// unclaim gives a chunk back that was to be written.
//
// +checklocks:t.mu
func (t *Traces) unclaim(p *pending) {
	if p.state != gone {
		p.state = waiting
	}
}

// final reports whether the actor's handle is of no use any more.
func final(err error) bool {
	return errors.Is(err, actorstore.ErrFenced) || errors.Is(err, actorstore.ErrPoisoned) ||
		errors.Is(err, actorstore.ErrClosed)
}

// hopelessTries is how often in a row a chunk is tried that the store says is too large.
const hopelessTries = 3

// hopeless reports whether a chunk can never be written, whatever becomes of the store: it
// would keep all others from it.
func hopeless(err error) bool {
	return errors.Is(err, batch.ErrTooLarge) || errors.Is(err, batch.ErrValueTooLarge) ||
		errors.Is(err, batch.ErrKeyTooLong)
}

// commit writes a chunk with one commit.
func (t *Traces) commit(p *pending) error {
	if err := t.resolveAll(t.ctx, p); err != nil {
		return err
	}
	var b batch.Batch
	t.In(&b).stage(p)
	return t.actor.Apply(t.ctx, &b)
}

// since says from what chunk on the next opening of the actor must look for spans that
// were left open, when p has landed: unset if the list of the newest chunk says it. A span
// that has ended is in no list, and the host may die before its end is stored; and of one
// that is listed, all that the list knows of its beginning may not be.
//
// +checklocks:t.mu
func (t *Traces) since(p *pending) optional[numbered] {
	newest, refs := t.tip.seq, t.tipRefs
	if p.seq > newest {
		newest, refs = p.seq, p.refs
	}
	missing := func(e ending) bool { return e.span.ended <= newest }
	lost := slices.ContainsFunc(t.unended, missing)
	away := map[seat]bool{} // chunks that are not stored
	for _, q := range t.queue {
		if q != p {
			lost = lost || slices.ContainsFunc(q.ends, missing)
			away[seat{q.bucket, q.number, 0}] = true
		}
	}
	for _, b := range t.open {
		lost = lost || slices.ContainsFunc(b.ends, missing)
		away[seat{b.bucket, b.number, 0}] = true
	}
	if lost || slices.ContainsFunc(refs, func(r ref) bool { return r.away(away) }) {
		return some(t.listed)
	}
	return optional[numbered]{}
}

// landed takes a chunk out of the queue that has been applied.
//
// +checklocks:t.mu
func (t *Traces) landed(p *pending) {
	t.stats.Chunks++
	t.stats.Records += int64(p.count)
	t.count(metricChunks, 1)
	since := t.since(p)
	if p.seq > t.tip.seq {
		t.tip, t.tipRefs = numbered{p.key(), p.seq}, p.refs
	}
	if !since.set {
		t.listed = t.tip
	}
	if t.opts.MaxBytes > 0 && t.index.bytes > t.opts.MaxBytes && t.index.several() || t.index.notes > maxIndexNotes {
		t.trimAt = 0
		t.kick()
	}
	if t.opts.MaxAge > 0 {
		t.trimAt = min(t.trimAt, t.oldAt(p.bucket.start))
	}
	if i := slices.Index(t.queue, p); i >= 0 {
		t.remove(i)
	}
	t.settleFlushes(0, nil)
}

// resolve finds out what ids the chunks of a bucket have: those behind the newest one that
// is stored. Ids that began anew would overwrite what is there.
func (t *Traces) resolve(ctx context.Context, k *bucket) error {
	t.resolving.Lock()
	defer t.resolving.Unlock()
	t.mu.Lock()
	resolved, next := k.resolved, t.index.buckets[k.start].next
	t.unlock()
	if resolved {
		return nil
	}
	last, err := lastKey(ctx, t.actor, bucketStart(t.actor.Layout(), k.start), bucketStart(t.actor.Layout(), k.start+1))
	if err != nil {
		return err
	}
	if last.set {
		next = max(next, last.value.id+1)
	}
	t.mu.Lock()
	k.first, k.resolved = next, true
	t.unlock()
	return nil
}

// resolveAll resolves the bucket of a chunk, and those of all records that it names.
func (t *Traces) resolveAll(ctx context.Context, p *pending) error {
	unknown := map[*bucket]bool{p.bucket: true}
	t.mu.Lock()
	for _, r := range p.refs {
		if !r.start.bucket.resolved {
			unknown[r.start.bucket] = true
		}
		if r.snapshot.set && !r.snapshot.value.bucket.resolved {
			unknown[r.snapshot.value.bucket] = true
		}
	}
	t.unlock()
	for k := range unknown {
		if err := t.resolve(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// lastKey returns the last key of a chunk in [start, end). One that is damaged counts: its
// place is taken.
func lastKey(ctx context.Context, r actorstore.Reader, start, end []byte) (k optional[chunkKey], err error) {
	for e, err := range r.List(ctx, actorstore.ListOptions{Start: start, End: end, Limit: 1, Reverse: true, KeysOnly: true}) {
		if errors.Is(err, actorstore.ErrCorrupt) {
			return lastSurveyed(ctx, r, start, end)
		}
		if err != nil {
			return k, err
		}
		if key, ok := parseChunkKey(r.Layout(), e.Key); ok {
			return some(key), nil
		}
		return lastSurveyed(ctx, r, start, end) // some other key
	}
	return k, nil
}

// lastSurveyed is lastKey where not all is as it should be.
func lastSurveyed(ctx context.Context, r actorstore.Reader, start, end []byte) (k optional[chunkKey], err error) {
	s, ok := r.(*actorstore.Snapshot)
	if !ok {
		if s, err = r.(*actorstore.Actor).Snapshot(ctx); err != nil {
			return k, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
	}
	for e, err := range s.Survey(ctx, start, end) {
		if err != nil && (e.Key == nil || !errors.Is(err, actorstore.ErrCorrupt)) {
			return k, err
		}
		if key, ok := parseChunkKey(r.Layout(), e.Key); ok {
			k = some(key)
		}
	}
	return k, nil
}
