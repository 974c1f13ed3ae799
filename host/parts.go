package host

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/workflow"
)

// What a program may say about the parts of its actors: the options of the packages below,
// without those that the host sets itself, such as the clock and the logger. Fields mean
// what those of the same names mean there.

// QueueOptions change the actors' queues: see queue.Options.
type QueueOptions struct {
	MaxMessages     int
	MaxMessageBytes int
	Visibility      time.Duration
	MaxReceive      int
	DeadLetter      string
	Names           []string
	Plain           bool
	KeyWindow       time.Duration
	MaxKeys         int
	MemoryBytes     int
}

func (o *QueueOptions) options(l *life) *queue.Options {
	return &queue.Options{
		MaxMessages: o.MaxMessages, MaxMessageBytes: o.MaxMessageBytes, Visibility: o.Visibility, MaxReceive: o.MaxReceive,
		DeadLetter: o.DeadLetter, Names: o.Names, Plain: o.Plain, KeyWindow: o.KeyWindow, MaxKeys: o.MaxKeys,
		MemoryBytes: o.MemoryBytes, Clock: l.clock, Logger: l.log, Metrics: l.host.meter,
	}
}

// DBOptions change the actors' databases: see vfs.Options.
type DBOptions struct {
	TempMemory     int64
	TempBytes      int64
	TempDir        string
	TxMemory       int64
	MaxSnapshotAge time.Duration
	MaxSnapshots   int
	Pragmas        []string
	Extensions     []vfs.Extension
	Wrap           vfs.Wrapper
}

// databaseConns bounds the connections to an actor's database: turns come one at a time.
const databaseConns = 1

// options returns those of a database whose commits don't wait for the disk: the gate waits
// for what turns have written.
func (o *DBOptions) options(l *life) *vfs.Options {
	return &vfs.Options{
		TempMemory: o.TempMemory, TempBytes: o.TempBytes, TempDir: o.TempDir, TxMemory: o.TxMemory,
		MaxSnapshotAge: o.MaxSnapshotAge, MaxSnapshots: o.MaxSnapshots, Pragmas: append(slices.Clone(o.Pragmas), "synchronous=NORMAL"),
		Extensions: o.Extensions, Wrap: o.Wrap, MaxConns: databaseConns, Logger: l.log, Metrics: l.host.meter,
	}
}

// WorkflowOptions change the actors' workflows: see workflow.Options.
type WorkflowOptions struct {
	Codec      workflow.Codec
	Errors     map[string]error
	ShortWait  time.Duration
	Grace      time.Duration
	MaxEntries int
	MaxBytes   int64
	Strict     bool
	Observe    func(workflow.Change)
	Around     func(ctx context.Context, s workflow.StepInfo, do func(context.Context) error) error
	// Tracing provides spans. nil means that runs and steps are spans in the actor's own
	// traces, if the host records any.
	Tracing trace.TracerProvider
	NewID   func() string
}

func (o *WorkflowOptions) options(l *life, due func()) *workflow.Options {
	w := &workflow.Options{Queue: l.queue, Clock: l.clock, OnDue: due, Logger: l.log}
	if o != nil {
		w.Codec, w.Errors, w.ShortWait, w.Grace, w.MaxEntries, w.MaxBytes = o.Codec, o.Errors, o.ShortWait, o.Grace, o.MaxEntries, o.MaxBytes
		w.Strict, w.Observe, w.Around, w.Tracing, w.NewID = o.Strict, o.Observe, o.Around, o.Tracing, o.NewID
	}
	if w.Tracing == nil && l.traces != nil {
		w.Tracing = flowTracer{life: l}
	}
	return w
}

// TracesOptions change how spans are recorded: see traces.Options.
type TracesOptions struct {
	BucketSize       time.Duration
	ChunkBytes       int
	ChunkAge         time.Duration
	SnapshotInterval time.Duration
	SnapshotBytes    int
	MaxActive        int
	Limits           traces.Limits
	MaxPending       int
	MaxPendingBytes  int
	MaxBackoff       time.Duration
	MaxAge           time.Duration
	MaxBytes         int64
	MaxRead          int
	Resource         *traces.Resource
}

func (o *TracesOptions) options(l *life) *traces.Options {
	return &traces.Options{
		BucketSize: o.BucketSize, ChunkBytes: o.ChunkBytes, ChunkAge: o.ChunkAge, SnapshotInterval: o.SnapshotInterval,
		SnapshotBytes: o.SnapshotBytes, MaxActive: o.MaxActive, Limits: o.Limits, MaxPending: o.MaxPending,
		MaxPendingBytes: o.MaxPendingBytes, MaxBackoff: o.MaxBackoff, MaxAge: o.MaxAge, MaxBytes: o.MaxBytes, MaxRead: o.MaxRead,
		Resource: o.Resource, Logger: l.log, Metrics: l.host.meter,
	}
}
