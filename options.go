package greenroom

import (
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/vfs"
)

// What a program may say about the parts of its actors: the options of the packages below,
// without those that an actor sets itself, such as the clock and the logger. Fields mean
// what those of the same names mean there.

// QueueOptions change the queue of an actor: see queue.Options.
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

func (o *QueueOptions) options(a *Actor) *queue.Options {
	if o == nil {
		o = &QueueOptions{}
	}
	return &queue.Options{
		MaxMessages: o.MaxMessages, MaxMessageBytes: o.MaxMessageBytes, Visibility: o.Visibility, MaxReceive: o.MaxReceive,
		DeadLetter: o.DeadLetter, Names: o.Names, Plain: o.Plain, KeyWindow: o.KeyWindow, MaxKeys: o.MaxKeys,
		MemoryBytes: o.MemoryBytes, Clock: a.clock, Logger: a.log, Metrics: a.store.opts.Metrics,
	}
}

// DBOptions change the database of an actor: see vfs.Options.
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

func (o *DBOptions) options(a *Actor) *vfs.Options {
	if o == nil {
		o = &DBOptions{}
	}
	return &vfs.Options{
		TempMemory: o.TempMemory, TempBytes: o.TempBytes, TempDir: o.TempDir, TxMemory: o.TxMemory,
		MaxSnapshotAge: o.MaxSnapshotAge, MaxSnapshots: o.MaxSnapshots, Pragmas: slices.Clone(o.Pragmas),
		Extensions: o.Extensions, Wrap: o.Wrap, MayWrite: a.outside, Logger: a.log, Metrics: a.store.opts.Metrics,
	}
}

// TracesOptions change how the spans of an actor are recorded: see traces.Options.
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

func (o *TracesOptions) options(a *Actor) *traces.Options {
	return &traces.Options{
		BucketSize: o.BucketSize, ChunkBytes: o.ChunkBytes, ChunkAge: o.ChunkAge, SnapshotInterval: o.SnapshotInterval,
		SnapshotBytes: o.SnapshotBytes, MaxActive: o.MaxActive, Limits: o.Limits, MaxPending: o.MaxPending,
		MaxPendingBytes: o.MaxPendingBytes, MaxBackoff: o.MaxBackoff, MaxAge: o.MaxAge, MaxBytes: o.MaxBytes, MaxRead: o.MaxRead,
		Resource: o.Resource, Logger: a.log, Metrics: a.store.opts.Metrics,
	}
}
