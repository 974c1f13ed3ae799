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

// A writer writes the chunks of a store in the background, and calls its trimmer.
type writer struct {
	st     *store
	trim   *trimmer
	ctx    context.Context // of what it does
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended

	retryAt time.Time     // no attempt before, unless a call flushes  +checklocks:st.mu
	backoff time.Duration // +checklocks:st.mu
}

// newWriter returns a writer that outlives ctx, and ends with stop.
func newWriter(ctx context.Context, trim *trimmer) *writer {
	w := &writer{st: trim.st, trim: trim, done: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return w
}

// stop ends the writer, and waits until it has ended.
func (w *writer) stop() {
	w.cancel()
	<-w.done
}

// write is the one goroutine that writes chunks, each with one commit, in the
// order in which they were cut, and removes what is too old. A chunk that can't be written
// stays at the head and is tried again, so that an error ends nothing.
func (w *writer) write() {
	defer close(w.done)
	for w.ctx.Err() == nil {
		p, trim, nap := w.next(time.Now())
		switch {
		case p != nil:
			w.attempt(p)
		case trim:
			w.trim.quietly(w.ctx)
		default:
			w.nap(nap)
		}
	}
}

// nap sleeps until there may be something to do.
func (w *writer) nap(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.st.wake:
	case <-w.ctx.Done():
	}
}

// next cuts what is old enough, and returns the chunk to be written now, which it claims;
// or that it is time to trim; or for how long there is nothing to do.
func (w *writer) next(now time.Time) (p *pending, trim bool, nap time.Duration) {
	w.st.mu.Lock()
	defer w.st.unlock()
	nap = maxNap
	if w.st.failed != nil {
		return nil, false, nap
	}
	for i := len(w.st.open) - 1; i >= 0; i-- {
		b := w.st.open[i]
		if left := b.begun.Add(w.st.opts.ChunkAge).Sub(now); left > 0 {
			nap = min(nap, left)
		} else {
			w.st.cut(b)
		}
	}
	for _, p := range w.st.queue {
		if p.state != waiting {
			continue
		}
		if left := w.retryAt.Sub(now); left > 0 && len(w.st.flushes) == 0 {
			nap = min(nap, left)
			break
		}
		p.state = writing
		for _, f := range w.st.flushes {
			f.tried = true
		}
		return p, false, 0
	}
	if at := w.st.now(); w.st.trimAt <= at {
		return nil, true, 0
	} else if left := time.Duration(min(w.st.trimAt-at, uint64(maxNap))); left < nap {
		nap = left
	}
	return nil, false, nap
}

// attempt tries to write a chunk.
func (w *writer) attempt(p *pending) {
	begin := time.Now()
	err := w.commit(p)
	w.st.mu.Lock()
	defer w.st.unlock()
	w.st.observe(metricWrite, time.Since(begin))
	if w.st.stats.LastWriteError = err; err == nil {
		w.retryAt, w.backoff = time.Time{}, 0
		return
	}
	w.st.unclaim(p)
	if w.st.closed || w.ctx.Err() != nil && errors.Is(err, w.ctx.Err()) {
		return // closing: it isn't wanted any more
	}
	w.st.stats.Retries++
	w.st.count(metricRetries, 1)
	w.failedAttempt(p, fmt.Errorf("traces: write chunk %d/%d: %w", p.bucket.start, p.number, err))
}

// failedAttempt decides what becomes of a chunk that could not be written.
//
// +checklocks:w.st.mu
func (w *writer) failedAttempt(p *pending, err error) {
	p.refused++
	if !hopeless(err) {
		p.refused = 0
	}
	switch {
	case final(err):
		// The handle is of no use any more, and what is not written never will be.
		w.st.failed = err
		w.st.giveUp(err)
		w.st.later(func() { w.st.log.Error("traces: recording has ended", "actor_id", w.st.actor.ID(), "err", err) })
	case p.refused >= hopelessTries:
		// The chunks behind it must not wait for ever.
		w.st.later(func() {
			w.st.log.Error("traces: chunk dropped", "actor_id", w.st.actor.ID(), "records", p.count, "err", err)
		})
		if i := slices.Index(w.st.queue, p); i >= 0 {
			w.st.drop(i)
		}
	default:
		w.backoff = min(max(2*w.backoff, minBackoff), w.st.opts.MaxBackoff)
		w.retryAt = time.Now().Add(w.backoff)
		w.st.failFlushes(err)
		pending, again := len(w.st.queue), w.backoff
		w.st.later(func() {
			w.st.log.Warn("traces: chunk not written", "actor_id", w.st.actor.ID(), "pending", pending, "again in", again, "err", err)
		})
	}
}

// commit writes a chunk with one commit.
func (w *writer) commit(p *pending) error {
	if err := w.st.resolveAll(w.ctx, p); err != nil {
		return err
	}
	var b batch.Batch
	w.st.in(&b).stage(p)
	return w.st.actor.Apply(w.ctx, &b)
}
