// Package faultkv decorates a kv.Engine: it counts what is asked of it, and makes
// it fail where a test says so.
//
// It exists for tests and measurements that must know how often the engine is
// used ("one Get per page", "one commit per transaction"), or what happens when
// it lets its user down. Faults are declared: a Rule selects operations by Point,
// by key and by number, and Fail, Pause and Tear say what becomes of them; Hook
// runs any code, and Delay puts a distance before the engine. An Engine injects
// nothing by itself, never reorders, and doesn't change what the engine below does: a
// lost acknowledgement was a commit.
//
// It doesn't simulate a disk. What a crash leaves of a file is the business of
// the engines that have files.
package faultkv

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A Point is a place at which faults strike and the hook is called.
type Point uint8

// The points. Those that begin with Before come before the engine below is called:
// an error there is returned (or yielded) instead of calling it.
const (
	BeforeGet Point = iota
	BeforeScan
	BeforeSnapshot
	BeforeCommit
	// AfterCommit comes when a commit has returned nil, and its OnApply has run: an
	// error replaces that nil, as with a commit that others have seen, and that
	// couldn't be made durable. The commit stays applied.
	AfterCommit
	BeforeOutcome
	BeforeSync
	// AfterApply comes when a commit is applied, in the place of its OnApply, which
	// is called if no error comes of it: an error replaces what the commit returns.
	// That is the acknowledgement that is lost with a connection; an engine then
	// returns kv.ErrUnknownOutcome. The commit stays applied.
	AfterApply
	// BeforeEntry comes before each entry that a scan yields: an error ends the scan
	// in the middle.
	BeforeEntry
	// BeforeAttempt comes before an attempt at a transaction begins.
	BeforeAttempt
)

// before reports whether the operation hasn't happened yet.
func (p Point) before() bool { return p != AfterCommit && p != AfterApply }

// An Op is one call of the engine, at one point. What it refers to belongs to the caller:
// a hook that keeps any of it must copy it.
type Op struct {
	Point Point
	// Key is the key of a Get, and of the entry of BeforeEntry.
	Key []byte
	// Range is the range of a Scan.
	Range kv.Range
	// Commit is the commit of BeforeCommit, AfterApply and AfterCommit.
	Commit *kv.Commit
	// ID is what BeforeOutcome asks about.
	ID kv.CommitID
	// Snapshot tells a read of a snapshot from one of the engine.
	Snapshot bool
}

// Counts are how many calls there were. Calls that a fault refused count, and so
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
	// Attempts counts attempts at transactions. What they read and commit is in the
	// other counts.
	Attempts int64
}

// An Engine counts and passes on the calls of the engine below. It implements
// kv.Engine, kv.Sharer, kv.Failer and txn.Transactor, and allocates nothing for a Get or a Commit. All methods
// are safe for concurrent use.
type Engine struct {
	below kv.Engine
	mu    sync.Mutex           // one change of the plan at a time
	plan  atomic.Pointer[plan] // nil: nothing is set
	calls sync.Pool            // of *call

	gets, scans, snapshots, commits, durable, ops, bytes, syncs, attempts atomic.Int64
}

var (
	_ kv.Engine      = (*Engine)(nil)
	_ kv.Sharer      = (*Engine)(nil)
	_ kv.Failer      = (*Engine)(nil)
	_ txn.Transactor = (*Engine)(nil)
)

// A plan is everything that may happen to an operation. It doesn't change: a new
// one takes its place.
type plan struct {
	faults []*Fault // in the order in which they were set
	tear   *tear
	hook   func(Op) error
	trip   time.Duration
}

// New returns a decorator of below. Closing it closes below.
func New(below kv.Engine) *Engine { return &Engine{below: below} }

// Unwrap returns the engine below, which knows nothing of the faults.
func (e *Engine) Unwrap() kv.Engine { return e.below }

// Shared passes on what the engine below shares, nil if that is nothing.
func (e *Engine) Shared() *sync.Map { return kv.Shared(e.below) }

// Failed passes on when the engine below has failed for good. A fault of this one is not
// such a failure, whatever its error.
func (e *Engine) Failed() <-chan struct{} { return kv.Failed(e.below) }

// Hook sets the function that is called at every Point, after the faults, by any
// number of goroutines at once; nil, the initial state, removes it.
func (e *Engine) Hook(hook func(Op) error) {
	e.change(func(p *plan) { p.hook = hook })
}

// Heal undoes every Fail, Pause and Tear, and lets go of what is paused. The hook
// stays.
func (e *Engine) Heal() {
	var healed []*Fault
	e.change(func(p *plan) {
		healed = p.faults
		p.faults, p.tear = nil, nil
	})
	for _, f := range healed {
		f.disarm()
	}
}

// change replaces the plan by a copy that edit has worked on.
func (e *Engine) change(edit func(*plan)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var next plan
	if p := e.plan.Load(); p != nil {
		next = *p
	}
	edit(&next)
	if len(next.faults) == 0 && next.tear == nil && next.hook == nil && next.trip == 0 {
		e.plan.Store(nil)
		return
	}
	e.plan.Store(&next)
}

// at says what becomes of op. The first error decides.
func (e *Engine) at(ctx context.Context, op Op) error {
	p := e.plan.Load()
	if p == nil {
		return nil
	}
	if op.Point.before() && p.tear.dead() {
		return ErrTorn
	}
	if p.trip > 0 && op.Point.call() {
		if err := wait(ctx, p.trip); err != nil {
			return err
		}
	}
	for _, f := range p.faults {
		if err := f.meet(ctx, op); err != nil {
			return err
		}
	}
	if p.hook != nil {
		if err := p.hook(op); err != nil {
			return err
		}
	}
	// It may have been torn while op was paused.
	if p = e.plan.Load(); p != nil && op.Point.before() && p.tear.dead() {
		return ErrTorn
	}
	return nil
}

// Counts returns the counts since the start or the last Reset. Each is exact;
// calls that run meanwhile may be in some and not yet in others.
func (e *Engine) Counts() Counts {
	return Counts{
		Gets: e.gets.Load(), Scans: e.scans.Load(), Snapshots: e.snapshots.Load(),
		Commits: e.commits.Load(), Durable: e.durable.Load(), Ops: e.ops.Load(), Bytes: e.bytes.Load(),
		Syncs: e.syncs.Load(), Attempts: e.attempts.Load(),
	}
}

// Reset sets all counts to zero.
func (e *Engine) Reset() {
	for _, c := range []*atomic.Int64{
		&e.gets, &e.scans, &e.snapshots, &e.commits, &e.durable, &e.ops, &e.bytes, &e.syncs, &e.attempts,
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
	if err := e.at(ctx, Op{Point: BeforeGet, Key: key, Snapshot: snap}); err != nil {
		return dst, err
	}
	return from.Get(ctx, key, dst)
}

func (e *Engine) scan(ctx context.Context, from kv.Reader, r kv.Range, snap bool) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		e.scans.Add(1)
		if err := e.at(ctx, Op{Point: BeforeScan, Range: r, Snapshot: snap}); err != nil {
			yield(kv.Entry{}, err)
			return
		}
		from.Scan(ctx, r)(func(entry kv.Entry, err error) bool {
			if err == nil {
				err = e.at(ctx, Op{Point: BeforeEntry, Key: entry.Key, Range: r, Snapshot: snap})
			}
			if err != nil {
				yield(kv.Entry{}, err)
				return false
			}
			return yield(entry, nil)
		})
	}
}

// Snapshot is kv.Engine's. The reads of the snapshot are counted and fail too.
func (e *Engine) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	e.snapshots.Add(1)
	if err := e.at(ctx, Op{Point: BeforeSnapshot}); err != nil {
		return nil, err
	}
	s, err := e.below.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &snapshot{reader{s, e}}, nil
}

// Outcome is kv.Engine's.
func (e *Engine) Outcome(ctx context.Context, id kv.CommitID) (kv.Outcome, error) {
	if err := e.at(ctx, Op{Point: BeforeOutcome, ID: id}); err != nil {
		return kv.OutcomeUnknown, err
	}
	return e.below.Outcome(ctx, id)
}

// Sync is kv.Engine's.
func (e *Engine) Sync(ctx context.Context, in kv.Incarnation) error {
	e.syncs.Add(1)
	if err := e.at(ctx, Op{Point: BeforeSync}); err != nil {
		return err
	}
	return e.below.Sync(ctx, in)
}

// Incarnation is kv.Engine's.
func (e *Engine) Incarnation() kv.Incarnation { return e.below.Incarnation() }

// Limits is kv.Engine's.
func (e *Engine) Limits() kv.Limits { return e.below.Limits() }

// Close closes the engine below. No fault keeps it from that.
func (e *Engine) Close() error { return e.below.Close() }

// A reader counts the reads of a snapshot or an attempt, and makes them fail.
type reader struct {
	below kv.Snapshot
	e     *Engine
}

// A snapshot is the reader of one.
type snapshot struct{ reader }

func (s *reader) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	return s.e.get(ctx, s.below, key, dst, true)
}

func (s *reader) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return s.e.scan(ctx, s.below, r, true)
}

func (s *reader) Close() error { return s.below.Close() }
