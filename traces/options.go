package traces

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
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

// A config is Options with the defaults put in, and what follows from them and from the actor.
// It doesn't change.
type config struct {
	opts      Options
	actor     *actorstore.Actor
	limit     int // of a chunk in bytes
	target    int
	maxActive int
	log       *slog.Logger
	now       func() uint64 // Unix ns
}

// newConfig checks the options, and puts the defaults in. nil opts are the zero Options.
func newConfig(a *actorstore.Actor, opts *Options) (*config, error) {
	c := &config{actor: a}
	if opts != nil {
		c.opts = *opts
	}
	o := &c.opts
	l := c.actor.Limits()
	c.limit = min(l.ValueSize, l.Payload-maxKey, maxChunk)
	o.BucketSize = cmp.Or(o.BucketSize, defaultBucketSize)
	o.ChunkBytes = cmp.Or(o.ChunkBytes, c.limit)
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
	most := min(maxRefs, c.limit/4) / activeSnapshotSize
	c.maxActive = cmp.Or(o.MaxActive, most)
	c.target = min(o.ChunkBytes, c.limit)
	c.log, c.now = cmp.Or(o.Logger, slog.Default()), clock(o.Now)
	return c, c.check(most)
}

// check says what of the options makes no sense; most is the most spans that may
// run.
func (c *config) check(most int) error {
	o := &c.opts
	switch {
	case c.limit < minChunk:
		return fmt.Errorf("%w: a value may have %d bytes, and a chunk needs %d", ErrOptions, c.limit, minChunk)
	case o.BucketSize < time.Second || o.BucketSize%time.Second != 0 || o.BucketSize > widest:
		return fmt.Errorf("%w: BucketSize is %v", ErrOptions, o.BucketSize)
	case o.ChunkBytes < 0 || o.ChunkBytes > c.limit:
		return fmt.Errorf("%w: ChunkBytes is %d, and a chunk may have %d", ErrOptions, o.ChunkBytes, c.limit)
	case c.maxActive < 0 || c.maxActive > most:
		return fmt.Errorf("%w: MaxActive is %d, limit %d", ErrOptions, c.maxActive, most)
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
