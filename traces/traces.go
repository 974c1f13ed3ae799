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

// Files, from the top down:
//
//	load.go wire.go check.go lookback.go read.go gather.go assemble.go scan.go spanrecord.go writer.go
//	recorder.go trim.go span.go draft.go stats.go index.go tx.go flush.go metrics.go catalog.go
//	traces.go indexcodec.go builder.go chunkread.go chunk.go query.go data.go valueread.go id.go
//	valuecodec.go errors.go keys.go value.go

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/internal/drain"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/part"
)

// Options change what Open does. The zero value is fine.
type Options struct {
	// BucketSize is the time whose chunks are removed together: whole seconds, at most a
	// day. 0 means an hour.
	BucketSize time.Duration
	// ChunkBytes is how large a chunk gets before it is written, as it is stored. 0 means
	// as large as a value may be (batch.Limits), at most 128 KiB, and that is the most.
	ChunkBytes int
	// ChunkAge is how long a record waits before it is written. 0 means 5 seconds.
	ChunkAge time.Duration
	// SnapshotInterval and SnapshotBytes are after what time, or after how many bytes of
	// records, a running span is recorded whole again, so that reading it doesn't begin
	// at its start. 0 means 5 minutes and 256 KiB.
	SnapshotInterval time.Duration
	SnapshotBytes    int
	// MaxActive bounds the spans that run at once. Every chunk lists them, and the list has
	// at most 32 KiB: 0 means 655, and that is the most. One span more drops the deepest,
	// and of these the newest: no more of it is recorded.
	MaxActive int
	// Limits bound what a span has.
	Limits Limits
	// MaxPending and MaxPendingBytes bound what waits to be written: beyond it the oldest
	// chunk is dropped. 0 means 64 chunks and 8 MiB.
	MaxPending, MaxPendingBytes int
	// MaxBackoff bounds the time between two attempts at writing a chunk, which doubles
	// from 100 ms. 0 means 30 seconds.
	MaxBackoff time.Duration
	// MaxAge is how long spans are kept, at least. 0 means 7 days, a negative value for
	// ever.
	MaxAge time.Duration
	// MaxBytes is how many bytes of chunks are kept: beyond it the oldest buckets are
	// removed, but never the newest one. 0 means 256 MiB, a negative value no bound.
	MaxBytes int64
	// MaxRead bounds the spans of one Read. 0 means 10,000.
	MaxRead int
	// Adopt makes the spans that were left open go on: see Traces.Adopted. Otherwise Open
	// ends them, with StatusError and the message "actor terminated".
	Adopt bool
	// Resource is that of spans that are started without one.
	Resource *Resource
	// Now is the time of day; nil means that of time.Now when Open was called, and the
	// time that passed since: it never goes back.
	Now func() time.Time
	// Env is what the parts of an actor share.
	part.Env
}

// Limits are those of OpenTelemetry's SDKs
// (https://opentelemetry.io/docs/specs/otel/trace/sdk/#span-limits), with their defaults
// for 0; a negative number means without limit. What is over is dropped, and the span says how
// many. A text that is too long is cut.
type Limits struct {
	Attributes      int // of a span: 128
	Events          int // of a span: 128
	Links           int // of a span: 128
	EventAttributes int // of an event: 128
	LinkAttributes  int // of a link: 128
	// ValueLength is that of a text, or of each text in a list, in characters, and of
	// bytes. 0 is 8192, or less where values of the actor may have less than 128 KiB, and
	// that is the most: a record, with everything that it has, takes at most a quarter of
	// a chunk. A text, or bytes, for which it has no room is cut to half of what is left,
	// and anything else is dropped.
	ValueLength int
}

// Defaults of Options.
const (
	defaultBucketSize       = time.Hour
	defaultChunkAge         = 5 * time.Second
	defaultSnapshotInterval = 5 * time.Minute
	defaultSnapshotBytes    = 256 << 10
	defaultMaxPending       = 64
	defaultMaxPendingBytes  = 8 << 20
	defaultMaxBackoff       = 30 * time.Second
	defaultMaxAge           = 7 * 24 * time.Hour
	defaultMaxBytes         = 256 << 20
	defaultMaxRead          = 10_000
	defaultLimit            = 128
)

// maxRefs bounds the list of the spans that run, in bytes of a chunk.
const maxRefs = 32 << 10

// maxChunk bounds a chunk, also where values may have more: a reader elsewhere may not
// take more. maxKey is what its key takes of a commit's payload.
const (
	maxChunk = 128 << 10
	maxKey   = 32
)

// minChunk is the smallest limit on values with which anything sensible can be recorded.
const minChunk = 2 << 10

// Traces record the spans of an actor. They are safe for concurrent use.
type Traces struct {
	actor     *actorstore.Actor
	opts      Options
	bounds    bounds
	limit     int // of a chunk in bytes
	target    int
	maxActive int
	free      func()    // gives the namespace back
	end       sync.Once // of free
	log       *slog.Logger
	meter     metrics.Meter
	now       func() uint64 // Unix ns

	ctx    context.Context // of what the writer does
	cancel context.CancelFunc
	wake   chan struct{} // holds a token when the writer has something to look at
	done   chan struct{} // closed when the writer has ended

	commits drain.Gate // of commits that are under way; closed with the traces

	// betweenLooks, unless it is nil, is called by reads when they have looked at what is not
	// written yet, and not at what is. Tests set it.
	betweenLooks func()

	// resolving is held while the store is asked for the ids that a bucket has. It is
	// taken before mu.
	resolving sync.Mutex
	trimming  sync.Mutex // held by Trim, and taken first

	// mu is held for memory alone: never while the store is asked, nor during a commit,
	// whose participants take it.
	mu               sync.Mutex
	tell             []func()          // what is called when mu is free  +checklocks:mu
	closed           bool              // +checklocks:mu
	failed           error             // why nothing can be written any more  +checklocks:mu
	stats            Stats             // +checklocks:mu
	buckets          map[int64]*bucket // that were used since Open  +checklocks:mu
	open             []*builder        // +checklocks:mu
	spare            map[string]uint32 // +checklocks:mu
	room             int               // bytes of records that a chunk will need  +checklocks:mu
	serial           uint64            // of the last builder  +checklocks:mu
	latest           uint64            // Unix ns of the last look at the clock  +checklocks:mu
	oldest, newest   *Span             // that run  +checklocks:mu
	active, refBytes int               // how many, and their list's size  +checklocks:mu
	lost             bool              // a span's beginning was dropped  +checklocks:mu
	unended          []ending          // ends that were dropped  +checklocks:mu
	draft, resDraft  draft             // +checklocks:mu
	resOf            *Resource         // that resDraft is of  +checklocks:mu
	seq              uint64            // of the last chunk that was cut  +checklocks:mu
	tip              numbered          // the chunk that was cut last of those that are stored  +checklocks:mu
	tipRefs          []ref             // what it lists  +checklocks:mu
	listed           numbered          // one that is stored, whose list says of all spans before that run  +checklocks:mu
	queue            []*pending        // +checklocks:mu
	pendingBytes     int               // +checklocks:mu
	flushes          []*flush          // +checklocks:mu
	retryAt          time.Time         // no attempt before, unless a call flushes  +checklocks:mu
	backoff          time.Duration     // +checklocks:mu
	written, synced  uint64            // commits applied, and of these on stable storage  +checklocks:mu
	trimAt           uint64            // when to look for what is too old, Unix ns  +checklocks:mu
	index            index             // +checklocks:mu
	adopted          []*Span           // +checklocks:mu
}

// Open makes the traces of an actor ready for recording; nil opts are the zero Options.
// There can be one Traces of an actor at a time: another is actorstore.ErrKept. They must
// be closed before the actor is.
//
// Open reads the newest chunk, and the notes that index the chunks; with Adopt, the spans
// that go on as well. It writes nothing by itself. Damage of what is stored is logged, and
// no error.
func Open(ctx context.Context, a *actorstore.Actor, opts *Options) (*Traces, error) {
	t := &Traces{actor: a, wake: make(chan struct{}, 1), done: make(chan struct{}), buckets: map[int64]*bucket{}}
	if opts != nil {
		t.opts = *opts
	}
	if err := t.options(); err != nil {
		return nil, fmt.Errorf("traces: open: %w", err)
	}
	free, err := a.Keep(actorstore.NamespaceTraces)
	if err != nil {
		return nil, fmt.Errorf("traces: open: %w", err)
	}
	t.free = free
	t.ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := t.load(ctx); err != nil {
		t.cancel()
		free()
		return nil, fmt.Errorf("traces: open: %w", err)
	}
	go t.write()
	return t, nil
}

// options checks the options and puts the defaults in.
func (t *Traces) options() error {
	o := &t.opts
	l := t.actor.Limits()
	t.limit = min(l.ValueSize, l.Payload-maxKey, maxChunk)
	o.BucketSize = cmp.Or(o.BucketSize, defaultBucketSize)
	o.ChunkBytes = cmp.Or(o.ChunkBytes, t.limit)
	o.ChunkAge = cmp.Or(o.ChunkAge, defaultChunkAge)
	o.SnapshotInterval = cmp.Or(o.SnapshotInterval, defaultSnapshotInterval)
	o.SnapshotBytes = cmp.Or(o.SnapshotBytes, defaultSnapshotBytes)
	o.MaxPending = cmp.Or(o.MaxPending, defaultMaxPending)
	o.MaxPendingBytes = cmp.Or(o.MaxPendingBytes, defaultMaxPendingBytes)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, defaultMaxBackoff)
	o.MaxAge = cmp.Or(o.MaxAge, defaultMaxAge)
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultMaxBytes)
	o.MaxRead = cmp.Or(o.MaxRead, defaultMaxRead)
	for _, n := range []*int{&o.Limits.Attributes, &o.Limits.Events, &o.Limits.Links,
		&o.Limits.EventAttributes, &o.Limits.LinkAttributes} {
		*n = cmp.Or(*n, defaultLimit)
	}
	most := min(maxRefs, t.limit/4) / activeSnapshotSize
	t.maxActive = cmp.Or(o.MaxActive, most)
	t.target, t.bounds = min(o.ChunkBytes, t.limit), boundsOf(t.limit, o.Limits.ValueLength)
	t.log, t.meter.To, t.now = o.Logger, o.Metrics, clock(o.Now)
	if t.log == nil {
		t.log = slog.Default()
	}
	return t.checkOptions(most)
}

// checkOptions says what of the options makes no sense; most is the most spans that may
// run.
func (t *Traces) checkOptions(most int) error {
	o := &t.opts
	switch {
	case t.limit < minChunk:
		return fmt.Errorf("%w: a value may have %d bytes, and a chunk needs %d", ErrOptions, t.limit, minChunk)
	case o.BucketSize < time.Second || o.BucketSize%time.Second != 0 || o.BucketSize > widest:
		return fmt.Errorf("%w: BucketSize is %v", ErrOptions, o.BucketSize)
	case o.ChunkBytes < 0 || o.ChunkBytes > t.limit:
		return fmt.Errorf("%w: ChunkBytes is %d, and a chunk may have %d", ErrOptions, o.ChunkBytes, t.limit)
	case t.maxActive < 0 || t.maxActive > most:
		return fmt.Errorf("%w: MaxActive is %d, limit %d", ErrOptions, t.maxActive, most)
	case o.ChunkAge < 0 || o.SnapshotInterval < 0 || o.SnapshotBytes < 0 || o.MaxBackoff < 0:
		return fmt.Errorf("%w: a negative time or size", ErrOptions)
	case o.MaxPending < 0 || o.MaxPendingBytes < 0 || o.MaxRead < 0:
		return fmt.Errorf("%w: a negative bound", ErrOptions)
	}
	return nil
}

// clock returns what tells the time in Unix ns. By default that is the time of day at
// first, and then what has passed: steps of the machine's clock would make spans end
// before they began.
func clock(now func() time.Time) func() uint64 {
	if now != nil {
		return func() uint64 { return unixNano(now()) }
	}
	anchor := time.Now()
	begin := unixNano(anchor)
	return func() uint64 { return begin + uint64(time.Since(anchor)) }
}

// usable says why nothing is recorded any more.
//
// +checklocks:t.mu
func (t *Traces) usable() error {
	if t.closed {
		return ErrClosed
	}
	return t.failed
}

// ignore counts a call that does nothing.
//
// +checklocks:t.mu
func (t *Traces) ignore() {
	t.stats.Ignored++
	t.count(metricIgnored, 1)
}

// Close flushes and ends the recording, not the actor. Spans that run are left open, for
// the next Open. After an error, which is that of Flush, t is closed all the same, and what
// could not be written is lost. A second Close returns nil when the first is over.
func (t *Traces) Close(ctx context.Context) error {
	err := t.Flush(ctx)
	t.mu.Lock()
	t.closed = true
	// What was recorded since the Flush, or couldn't be written.
	for len(t.open) > 0 {
		t.cut(t.open[0])
	}
	t.unlock()
	t.cancel()
	<-t.done
	// The next opening of the traces looks for the places that are taken, and must find those
	// of batches on their way into the engine. No other batch gets there any more.
	_ = t.commits.Close(context.WithoutCancel(ctx)) // which doesn't give up
	t.mu.Lock()
	t.giveUp(ErrClosed)
	t.unlock()
	t.end.Do(t.free)
	if err != nil && !errors.Is(err, ErrClosed) {
		return fmt.Errorf("traces: close: %w", err)
	}
	return nil
}

// giveUp drops everything that waits to be written.
//
// +checklocks:t.mu
func (t *Traces) giveUp(why error) {
	for _, f := range t.flushes {
		t.later(func() { f.done <- why })
	}
	t.flushes = nil
	for len(t.queue) > 0 {
		t.drop(0)
	}
}

// Adopted returns the spans that were left open and go on (Options.Adopt), oldest first.
func (t *Traces) Adopted() []*Span {
	t.mu.Lock()
	defer t.unlock()
	return slices.Clone(t.adopted)
}
