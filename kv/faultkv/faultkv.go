// Package faultkv decorates a kv.Engine: it counts what is asked of it, and lets
// a hook make it fail.
//
// It exists for tests and measurements that must know how often the engine is
// used ("one Get per page", "one commit per transaction"), or what happens when
// it lets its user down. It injects nothing by itself, and it doesn't change
// what the engine below does.
package faultkv

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/kv"
)

// A Point is a place at which a hook is called.
type Point uint8

// The points. All but AfterCommit come before the engine below is called: an
// error of the hook is returned (or yielded) instead of calling it.
const (
	BeforeGet Point = iota
	BeforeScan
	BeforeSnapshot
	BeforeCommit
	// AfterCommit comes when a commit has returned nil: an error of the hook
	// replaces that nil, as with a connection that was lost when the commit had
	// been made. The commit stays applied.
	AfterCommit
	BeforeOutcome
	BeforeSync
)

// An Op is one call of the engine, at one point.
type Op struct {
	Point Point
	// Key is the key of a Get, for the time of the hook.
	Key []byte
	// Range is the range of a Scan.
	Range kv.Range
	// Commit is the commit of BeforeCommit and AfterCommit; it must not be kept.
	Commit *kv.Commit
	// Snapshot tells a read of a snapshot from one of the engine.
	Snapshot bool
}

// Counts are how many calls there were. Calls that a hook refused count, and so
// do those that failed.
type Counts struct {
	// Gets and Scans are reads, of the engine and of its snapshots; a Scan
	// counts when its iteration begins.
	Gets, Scans int64
	// Snapshots counts the snapshots made.
	Snapshots int64
	// Commits counts commits; Durable how many of them asked for that
	// durability. Ops and Bytes are the sums of their operations, and of the
	// keys and values in these. Checks don't count as reads.
	Commits, Durable, Ops, Bytes int64
	// Syncs counts calls of Sync.
	Syncs int64
}

// An Engine counts and passes on the calls of the engine below. It implements
// kv.Engine and allocates nothing for a Get or a Commit.
type Engine struct {
	below kv.Engine
	hook  atomic.Pointer[func(Op) error]

	gets, scans, snapshots, commits, durable, ops, bytes, syncs atomic.Int64
}

var _ kv.Engine = (*Engine)(nil)

// New returns a decorator of below. Closing it closes below.
func New(below kv.Engine) *Engine { return &Engine{below: below} }

// Hook sets the function that is called at every Point, by any number of
// goroutines at once; nil, the initial state, is none.
func (e *Engine) Hook(hook func(Op) error) {
	if hook == nil {
		e.hook.Store(nil)
		return
	}
	e.hook.Store(&hook)
}

// at calls the hook.
func (e *Engine) at(op Op) error {
	if h := e.hook.Load(); h != nil {
		return (*h)(op)
	}
	return nil
}

// Counts returns the counts since the start or the last Reset. Each is exact;
// calls that run meanwhile may be in some and not yet in others.
func (e *Engine) Counts() Counts {
	return Counts{
		Gets: e.gets.Load(), Scans: e.scans.Load(), Snapshots: e.snapshots.Load(),
		Commits: e.commits.Load(), Durable: e.durable.Load(), Ops: e.ops.Load(), Bytes: e.bytes.Load(),
		Syncs: e.syncs.Load(),
	}
}

// Reset sets all counts to zero.
func (e *Engine) Reset() {
	for _, c := range []*atomic.Int64{
		&e.gets, &e.scans, &e.snapshots, &e.commits, &e.durable, &e.ops, &e.bytes, &e.syncs,
	} {
		c.Store(0)
	}
}

// Get is kv.Reader's.
func (e *Engine) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	return e.get(ctx, e.below, key, dst, false)
}

// Scan is kv.Reader's.
func (e *Engine) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return e.scan(ctx, e.below, r, false)
}

func (e *Engine) get(ctx context.Context, from kv.Reader, key, dst []byte, snap bool) ([]byte, error) {
	e.gets.Add(1)
	if err := e.at(Op{Point: BeforeGet, Key: key, Snapshot: snap}); err != nil {
		return dst, err
	}
	return from.Get(ctx, key, dst)
}

func (e *Engine) scan(ctx context.Context, from kv.Reader, r kv.Range, snap bool) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		e.scans.Add(1)
		if err := e.at(Op{Point: BeforeScan, Range: r, Snapshot: snap}); err != nil {
			yield(kv.Entry{}, err)
			return
		}
		from.Scan(ctx, r)(yield)
	}
}

// Snapshot is kv.Engine's. The reads of the snapshot are counted and hooked too.
func (e *Engine) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	e.snapshots.Add(1)
	if err := e.at(Op{Point: BeforeSnapshot}); err != nil {
		return nil, err
	}
	s, err := e.below.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &snapshot{s, e}, nil
}

// Commit is kv.Engine's.
func (e *Engine) Commit(ctx context.Context, c *kv.Commit) error {
	e.commits.Add(1)
	if c.Durability == kv.Durable {
		e.durable.Add(1)
	}
	e.ops.Add(int64(len(c.Ops)))
	n := 0
	for i := range c.Ops {
		n += len(c.Ops[i].Key) + len(c.Ops[i].Value)
	}
	e.bytes.Add(int64(n))
	if err := e.at(Op{Point: BeforeCommit, Commit: c}); err != nil {
		return err
	}
	if err := e.below.Commit(ctx, c); err != nil {
		return err
	}
	return e.at(Op{Point: AfterCommit, Commit: c})
}

// Outcome is kv.Engine's.
func (e *Engine) Outcome(ctx context.Context, id kv.CommitID) (kv.Outcome, error) {
	if err := e.at(Op{Point: BeforeOutcome}); err != nil {
		return kv.OutcomeUnknown, err
	}
	return e.below.Outcome(ctx, id)
}

// Sync is kv.Engine's.
func (e *Engine) Sync(ctx context.Context) error {
	e.syncs.Add(1)
	if err := e.at(Op{Point: BeforeSync}); err != nil {
		return err
	}
	return e.below.Sync(ctx)
}

// Limits is kv.Engine's.
func (e *Engine) Limits() kv.Limits { return e.below.Limits() }

// Close closes the engine below.
func (e *Engine) Close() error { return e.below.Close() }

// A snapshot counts and hooks the reads of a snapshot.
type snapshot struct {
	below kv.Snapshot
	e     *Engine
}

func (s *snapshot) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	return s.e.get(ctx, s.below, key, dst, true)
}

func (s *snapshot) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return s.e.scan(ctx, s.below, r, true)
}

func (s *snapshot) Close() error { return s.below.Close() }
