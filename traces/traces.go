// Package traces records the spans of an actor in the actor's own keys, as they happen:
// a span is there to be read while it still runs, and after a crash.
//
// Spans, in the sense of OpenTelemetry, are started, updated and ended through a Span;
// each step is a record. Records of one hour are collected in chunks, and a chunk is
// written with one engine commit when it is full, when it is old enough (Options.MaxAge),
// or when Flush asks for it. No chunk is larger than a value may be. Recording never waits
// for the store, and never fails into the program that is observed: what can't be stored
// is cut or dropped, and counted in Stats.
//
// # Reading
//
// Read finds spans by time, trace, name, status and duration. It sees everything that was
// recorded, written or not, and damage is reported beside what could be read. The function
// Read does the same for an actor with another owner.
//
// # What is kept
//
// Options.MaxAge and MaxBytes bound it: whole hours are removed, oldest first.
//
// # What it is not
//
// Package traces isn't an OpenTelemetry SDK, and imports none: it samples nothing and
// propagates nothing. Package traces/otelsdk is a span processor of the SDK that records
// here, and package traces/otlp turns spans into OTLP. What is stored is byte for byte what
// the TypeScript runtime reads and writes; docs/traces.md has the format.
package traces

// Three types do the work, and Traces is the door to them. The recorder turns what happens to
// spans into records, and keeps the running spans. The store keeps the chunks: it fills and
// queues them, and takes over what commits of the actor have changed. A Tx is what one commit
// does to the chunks; the writer makes commits in the background, and the trimmer removes old
// chunks. The reader puts spans together from chunks. The recorder and the reader use the store,
// and the store calls neither, but for store.heal.
//
//	the door      traces.go wire.go read.go check.go
//	the recorder  spanrecord.go resume.go recorder.go, with draft.go running.go limiter.go span.go
//	the reader    lookback.go gather.go, with assemble.go query.go scan.go catalog.go
//	the store     tx.go flush.go store.go, with writer.go trim.go index.go builder.go guard.go
//	the format    indexcodec.go chunkread.go chunk.go valueread.go valuecodec.go keys.go
//
// The lock of the store guards the recorder too: a chunk that is cut changes both. It is held for
// memory alone. The trimmer's lock is taken before it, and so is store.resolving.
//
// Files, from the top down:
//
//	traces.go wire.go read.go check.go writer.go trim.go spanrecord.go resume.go recorder.go draft.go
//	lookback.go gather.go assemble.go query.go tx.go flush.go store.go index.go scan.go catalog.go
//	indexcodec.go running.go builder.go limiter.go span.go stats.go options.go guard.go metrics.go
//	chunkread.go chunk.go data.go valueread.go valuecodec.go id.go errors.go keys.go value.go

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// Traces record the spans of an actor. They are safe for concurrent use.
type Traces struct {
	rec    *recorder
	store  *store
	trim   *trimmer
	writer *writer
	free   func()    // gives the namespace back
	end    sync.Once // of free

	// betweenLooks, unless it is nil, is called by reads when they have looked at what is not
	// written yet, and not at what is. Tests set it.
	betweenLooks func()
}

// Open makes the traces of an actor ready for recording; nil opts are the zero Options.
// There can be one Traces of an actor at a time: another is actorstore.ErrKept. They must
// be closed before the actor is.
//
// Open reads the newest chunk, and the notes that index the chunks; with Adopt, the spans
// that go on as well. It writes nothing by itself. Damage of what is stored is logged, and
// no error.
func Open(ctx context.Context, a *actorstore.Actor, opts *Options) (*Traces, error) {
	c, err := newConfig(a, opts)
	if err != nil {
		return nil, fmt.Errorf("traces: open: %w", err)
	}
	free, err := a.Keep(actorstore.NamespaceTraces)
	if err != nil {
		return nil, fmt.Errorf("traces: open: %w", err)
	}
	st := newStore(c)
	t := &Traces{rec: newRecorder(c, st), store: st, trim: &trimmer{st: st}, free: free}
	if err := t.rec.load(ctx); err != nil {
		free()
		return nil, fmt.Errorf("traces: open: %w", err)
	}
	t.writer = newWriter(ctx, t.trim)
	go t.writer.write()
	return t, nil
}

// Start starts a span, and returns it with a context that has it: spans started with that
// context are its children. nil opts are the zero StartOptions. It never fails: what is
// recorded of a span that can't be is ignored, and counted.
func (t *Traces) Start(ctx context.Context, name string, opts *StartOptions) (context.Context, *Span) {
	s := t.rec.begin(FromContext(ctx), name, opts)
	return NewContext(ctx, s), s
}

// Begin is Start without a context.
func (t *Traces) Begin(name string, opts *StartOptions) *Span { return t.rec.begin(nil, name, opts) }

// Record records a span that has ended elsewhere, all of it at once: for spans that were
// not started here, or were dropped since. Of one that is stored already it replaces
// everything but the events. A span without ids is given them; one that still runs ends
// now.
func (t *Traces) Record(d *SpanData) { t.rec.record(d) }

// Adopted returns the spans that were left open and go on (Options.Adopt), oldest first.
func (t *Traces) Adopted() []*Span {
	t.store.mu.Lock()
	defer t.store.unlock()
	return slices.Clone(t.rec.adopted)
}

// In returns what b does to the traces, which lands with everything else in b, or not at
// all. There is one Tx for each batch: In returns the same one every time.
func (t *Traces) In(b *batch.Batch) *Tx { return t.store.in(b) }

// Flush writes everything that was recorded before the call, and returns when it is on
// stable storage. An error of the store ends the wait, not the attempts: what was
// recorded stays in its place, and the next Flush tries again at once. So does the
// context's.
//
// Errors: ErrClosed, ErrDropped, ErrBusy, and those of actorstore.
func (t *Traces) Flush(ctx context.Context) error { return t.store.flush(ctx) }

// Trim removes what Options.MaxAge and MaxBytes don't keep, as happens by itself when a
// chunk is written and when time passes. It reports how many buckets it removed: each with
// one commit, and one for every hundred notes about them.
func (t *Traces) Trim(ctx context.Context) (buckets int, err error) { return t.trim.trim(ctx) }

// Stats returns what has happened since Open, and what there is.
func (t *Traces) Stats() Stats { return t.store.counts() }

// Close flushes and ends the recording, not the actor. Spans that run are left open, for
// the next Open. After an error, which is that of Flush, t is closed all the same, and what
// could not be written is lost. A second Close returns nil when the first is over.
func (t *Traces) Close(ctx context.Context) error {
	err := t.Flush(ctx)
	t.store.close()
	t.writer.stop()
	// The next opening of the traces looks for the places that are taken, and must find those
	// of batches on their way into the engine. No other batch gets there any more.
	_ = t.store.commits.Close(context.WithoutCancel(ctx)) // which doesn't give up
	t.store.mu.Lock()
	t.store.giveUp(ErrClosed)
	t.store.unlock()
	t.end.Do(t.free)
	if err != nil && !errors.Is(err, ErrClosed) {
		return fmt.Errorf("traces: close: %w", err)
	}
	return nil
}
