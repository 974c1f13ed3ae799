package engines

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A Tape is an engine in memory that keeps each state that it has had, so that a test
// can open the store as a crash after any commit would leave it. One process has the store
// (kv.Sharer). It is safe for concurrent use.
type Tape struct {
	kv.Engine
	mu      sync.Mutex
	commits []TapedCommit // +checklocks:mu
	// states are the stores after 0, 1, … commits. Where the engine can't be cloned they are nil, and a state is made
	// of the operations that led to it: begin, and then those of the commits.
	states []kv.Engine // +checklocks:mu
	begin  []kv.Op
}

// A TapedCommit is one commit on a Tape. It belongs to the tape.
type TapedCommit struct {
	Ops     []kv.Op
	Durable bool // it, or a Sync right behind it, was waited for
}

// NewTape returns a Tape of an empty store. It needs no Close.
func NewTape() *Tape { return newTape(memkv.New(), nil) }

func newTape(e kv.Engine, begin []kv.Op) *Tape {
	t := &Tape{Engine: e, begin: begin}
	t.states = append(t.states, t.state())
	return t
}

// state returns a clone of the newest state, nil if there can be none.
func (t *Tape) state() kv.Engine {
	c, err := memkv.Clone(t.Engine)
	if err != nil && !errors.Is(err, kv.ErrUnsupported) {
		panic("engines: " + err.Error())
	}
	return c
}

// Shared is kv.Sharer's.
func (t *Tape) Shared() *sync.Map { return kv.Shared(t.Engine) }

// Commit is kv.Engine's. A commit that fails isn't on the tape.
func (t *Tape) Commit(ctx context.Context, c *kv.Commit) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	taped := TapedCommit{Durable: c.Durability == kv.Durable}
	for _, op := range c.Ops {
		op.Key, op.Value = bytes.Clone(op.Key), bytes.Clone(op.Value)
		taped.Ops = append(taped.Ops, op)
	}
	if err := t.Engine.Commit(ctx, c); err != nil {
		return err
	}
	t.commits = append(t.commits, taped)
	t.states = append(t.states, t.state())
	return nil
}

// Sync is kv.Engine's: what was applied before is durable.
func (t *Tape) Sync(ctx context.Context, in kv.Incarnation) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.commits); n > 0 {
		t.commits[n-1].Durable = true
	}
	return t.Engine.Sync(ctx, in)
}

// Len returns how many commits there are.
func (t *Tape) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.commits)
}

// Commits returns the commits from number from on. The caller must not change them.
func (t *Tape) Commits(from int) []TapedCommit {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.commits[from:])
}

// Durable returns how many commits a crash leaves at least: those up to the last one that was waited for.
func (t *Tape) Durable() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.commits)
	for n > 0 && !t.commits[n-1].Durable {
		n--
	}
	return n
}

// At returns the store as it was after n commits, as a new tape without a commit. Neither changes the other.
func (t *Tape) At(tb testing.TB, n int) *Tape {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.states[n] != nil {
		e, err := memkv.Clone(t.states[n])
		if err != nil {
			tb.Fatal(err)
		}
		return newTape(e, nil)
	}
	ops := slices.Clone(t.begin)
	for _, c := range t.commits[:n] {
		ops = append(ops, c.Ops...)
	}
	e := memkv.New()
	if err := e.Commit(tb.Context(), &kv.Commit{Ops: ops}); err != nil { // one: the engine may be far
		tb.Fatal(err)
	}
	return newTape(e, ops)
}
