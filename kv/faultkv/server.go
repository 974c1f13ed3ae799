package faultkv

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/outcomes"
)

// A Server is an engine that may lose what is not on stable storage while it is
// open, like an engine whose data is on a server elsewhere: Crash begins another
// kv.Incarnation. Its reads are far, and it isn't a kv.Sharer, so others may use it too.
type Server struct {
	empty    func() kv.Engine
	now      atomic.Pointer[life]
	outcomes outcomes.Memory

	mu      sync.Mutex  // one commit at a time, or a crash
	stable  []kv.Commit // +checklocks:mu
	pending []kv.Commit // applied, and not on stable storage  +checklocks:mu
}

// A life is what a Server holds in one incarnation.
type life struct {
	kv.Engine
	in kv.Incarnation
}

// NewServer returns an empty Server, which keeps what it has in engines that empty
// returns: a new one for each incarnation.
func NewServer(empty func() kv.Engine) *Server {
	s := &Server{empty: empty}
	s.now.Store(&life{empty(), 1})
	return s
}

// ErrCrashed is what a snapshot returns that was taken before a crash.
var ErrCrashed = errors.New("faultkv: the server of the snapshot has crashed")

// Crash takes back all commits that are not on stable storage but the first keep of them.
func (s *Server) Crash(keep int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stable = append(s.stable, s.pending[:min(keep, len(s.pending))]...)
	s.restart()
}

// Failover takes back all commits that are not on stable storage, and the last lost of
// those that are, as when a standby without them takes over.
func (s *Server) Failover(lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stable = s.stable[:max(0, len(s.stable)-lost)]
	s.restart()
}

// restart begins the next incarnation with what is stable.
//
// +checklocks:s.mu
func (s *Server) restart() {
	s.pending = nil
	next := &life{s.empty(), s.now.Load().in + 1}
	for i := range s.stable {
		if err := next.Commit(context.Background(), &s.stable[i]); err != nil {
			panic(err) // it had no checks left that could fail
		}
	}
	s.now.Store(next)
}

// Unsynced returns the number of commits that a crash may take back.
func (s *Server) Unsynced() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending)
}

// Incarnation counts the crashes, from 1. See kv.Engine.
func (s *Server) Incarnation() kv.Incarnation { return s.now.Load().in }

// Commit is kv.Engine's. A Durable commit is on stable storage at once.
func (s *Server) Commit(ctx context.Context, c *kv.Commit) error {
	if err := s.commit(ctx, c); err != nil {
		return err
	}
	if c.OnApply != nil {
		c.OnApply()
	}
	return nil
}

func (s *Server) commit(ctx context.Context, c *kv.Commit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.In != 0 && c.In != s.Incarnation() {
		s.outcomes.Record(c.ID, kv.OutcomeNotApplied)
		return kv.NotApplied(kv.ErrIncarnation)
	}
	below := *c
	below.In, below.OnApply = 0, nil
	if err := s.now.Load().Commit(ctx, &below); err != nil {
		s.outcomes.Record(c.ID, kv.OutcomeNotApplied)
		return err
	}
	s.outcomes.Record(c.ID, kv.OutcomeApplied)
	var kept kv.Commit
	for _, op := range c.Ops {
		op.Key, op.Value = bytes.Clone(op.Key), bytes.Clone(op.Value)
		kept.Ops = append(kept.Ops, op)
	}
	s.pending = append(s.pending, kept)
	if c.Durability == kv.Durable {
		s.sync()
	}
	return nil
}

// sync has everything on stable storage.
//
// +checklocks:s.mu
func (s *Server) sync() { s.stable, s.pending = append(s.stable, s.pending...), nil }

// Sync is kv.Engine's.
func (s *Server) Sync(ctx context.Context, in kv.Incarnation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.now.Load().Sync(ctx, 0); err != nil {
		return err
	}
	if in != s.Incarnation() {
		return kv.ErrUnknownOutcome
	}
	s.sync()
	return nil
}

// Get is kv.Reader's.
func (s *Server) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	return s.now.Load().Get(ctx, key, dst)
}

// Scan is kv.Reader's.
func (s *Server) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return s.now.Load().Scan(ctx, r)
}

// Snapshot is kv.Engine's. A snapshot ends with the server that holds it: ErrCrashed.
func (s *Server) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	at := s.now.Load()
	snap, err := at.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &serverSnapshot{snap, s, at.in}, nil
}

// Outcome is kv.Engine's.
func (s *Server) Outcome(ctx context.Context, id kv.CommitID) (kv.Outcome, error) {
	if _, err := s.now.Load().Outcome(ctx, id); err != nil {
		return kv.OutcomeUnknown, err
	}
	return s.outcomes.Outcome(id), nil
}

// Limits returns that reads are far.
func (s *Server) Limits() kv.Limits { return kv.Limits{Far: true} }

// Close is kv.Engine's.
func (s *Server) Close() error { return s.now.Load().Close() }

// A serverSnapshot is a snapshot of one incarnation.
type serverSnapshot struct {
	kv.Snapshot
	s  *Server
	in kv.Incarnation
}

func (s *serverSnapshot) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if s.in != s.s.Incarnation() {
		return dst, ErrCrashed
	}
	return s.Snapshot.Get(ctx, key, dst)
}

func (s *serverSnapshot) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	if s.in != s.s.Incarnation() {
		return func(yield func(kv.Entry, error) bool) { yield(kv.Entry{}, ErrCrashed) }
	}
	return s.Snapshot.Scan(ctx, r)
}
