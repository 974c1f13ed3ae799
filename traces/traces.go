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
// Read does the same for an actor that somebody else owns.
//
// # What is kept
//
// Options.MaxAge and MaxBytes bound it: whole hours are removed, oldest first.
//
// # What it is not
//
// Package traces is no OpenTelemetry SDK, and imports none: it samples nothing and
// propagates nothing. Package traces/otelsdk is a span processor of the SDK that records
// here, and package traces/otlp turns spans into OTLP. What is stored is byte for byte what
// the TypeScript runtime reads and writes; docs/traces.md has the format.
package traces

import (
	"context"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/metrics"
)

// Options change what Open does. The zero value is fine.
type Options struct {
	// BucketSize is the time whose chunks are removed together: whole seconds. 0 means an
	// hour.
	BucketSize time.Duration
	// ChunkBytes is how large a chunk gets before it is written, as it is stored. 0 means
	// as large as a value may be (batch.Limits.ValueSize), which is also the most.
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
	// Logger takes what goes wrong; nil means slog.Default().
	Logger *slog.Logger
	// Metrics is told what happens (Metrics lists it); nil means nobody.
	Metrics metrics.Sink
}

// Limits are those of OpenTelemetry's SDKs
// (https://opentelemetry.io/docs/specs/otel/trace/sdk/#span-limits), with their defaults
// for 0; a negative number is no limit. What is over is dropped, and the span says how
// many. A text that is too long is cut.
type Limits struct {
	Attributes      int // of a span: 128
	Events          int // of a span: 128
	Links           int // of a span: 128
	EventAttributes int // of an event: 128
	LinkAttributes  int // of a link: 128
	// ValueLength is that of a text, or of each text in a list, in characters. 0 is no
	// limit but the size of a chunk, of which a record has at most a quarter.
	ValueLength int
}

// Open makes the traces of an actor ready for recording; nil opts are the zero Options.
// There can be one Traces of an actor at a time: another is actorstore.ErrKept. They must
// be closed before the actor is.
//
// Open reads the newest chunk, and the notes that index the chunks. Damage of what is
// stored is logged, and no error.
func Open(ctx context.Context, a *actorstore.Actor, opts *Options) (*Traces, error) {
	panic("traces: later")
}

// Traces record the spans of an actor. They are safe for concurrent use.
type Traces struct {
	actor *actorstore.Actor
	opts  Options
}

// Flush writes everything that was recorded before the call, and returns when it is on
// stable storage. An error of the store ends the wait, not the attempts: what was
// recorded stays in its place, and the next Flush tries again at once. So does the
// context's.
//
// Errors: ErrClosed, ErrDropped, ErrBusy, and those of actorstore.
func (t *Traces) Flush(ctx context.Context) error { panic("traces: later") }

// Stage has everything that was recorded so far land with b. If b doesn't land it is
// written as usual. t is a batch.Stager.
func (t *Traces) Stage(b *batch.Batch) error { panic("traces: later") }

// Close flushes and ends the recording, not the actor. Spans that run are left open, for
// the next Open. After an error, which is that of Flush, t is closed all the same, and what
// could not be written is lost. A second Close returns nil.
func (t *Traces) Close(ctx context.Context) error { panic("traces: later") }

// Adopted returns the spans that were left open and go on (Options.Adopt), oldest first.
func (t *Traces) Adopted() []*Span { panic("traces: later") }

// Stats returns what has happened since Open, and what there is.
func (t *Traces) Stats() Stats { panic("traces: later") }

// Trim removes what Options.MaxAge and MaxBytes don't keep, as happens by itself when a
// chunk is written and when time passes. It reports how many buckets it removed.
func (t *Traces) Trim(ctx context.Context) (buckets int, err error) { panic("traces: later") }

// Stats are numbers of one Traces, since Open unless it says otherwise.
type Stats struct {
	Active       int   // spans that run
	Pending      int   // chunks that wait to be written
	PendingBytes int   // their size
	Bytes        int64 // of all chunks that are stored, as far as this package wrote them

	Chunks, Records int64 // written
	Retries         int64 // attempts at writing that failed
	Trimmed         int64 // buckets removed

	DroppedChunks, DroppedRecords int64 // given up because too much was waiting, or at the end
	DroppedSpans                  int64 // no more recorded: MaxActive
	DroppedAttributes             int64 // kept out by Limits or the size of a chunk
	DroppedEvents, DroppedLinks   int64
	Truncated                     int64 // values that were cut
	Ignored                       int64 // calls of spans that had ended, or were dropped

	LastWriteError error // of the last attempt, nil if it succeeded
}
