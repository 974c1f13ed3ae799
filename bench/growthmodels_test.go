package main

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// A stage is an actor whose engine is counted, and which can be opened again.
type stage struct {
	t      *testing.T
	engine *faultkv.Engine
	store  *actorstore.Store
	actor  *actorstore.Actor
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, engine: faultkv.New(memkv.New())}
	t.Cleanup(func() {
		s.must(s.actor.Close())
		s.must(s.store.Close())
		s.must(s.engine.Close())
	})
	s.open()
	return s
}

// open opens the actor as a process does that knows nothing of it.
func (s *stage) open() {
	s.t.Helper()
	if s.store != nil {
		s.must(s.actor.Close())
		s.must(s.store.Close())
	}
	var err error
	limits := batch.Limits{Storage: 1 << 40}
	s.store, err = actorstore.Open(s.t.Context(), s.engine, &actorstore.Options{Limits: limits})
	s.must(err)
	s.actor, err = s.store.Named(s.t.Context(), "bench", nil)
	s.must(err)
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// counts returns what f asks of the engine.
func (s *stage) counts(f func(ctx context.Context) error) faultkv.Counts {
	s.t.Helper()
	s.engine.Reset()
	s.must(f(s.t.Context()))
	return s.engine.Counts()
}

// TestGrowthOfModels: what an operation asks of the engine doesn't grow with what the actor
// holds already; but a queue and a workflow are read when they are opened, whole in as many
// scans as ever.
func TestGrowthOfModels(t *testing.T) {
	for _, n := range []int{10, 5000} {
		t.Run(fmt.Sprint("messages=", n), func(t *testing.T) { growQueue(t, n) })
		t.Run(fmt.Sprint("keys=", n), func(t *testing.T) { growKeys(t, n) })
		t.Run(fmt.Sprint("steps=", n), func(t *testing.T) { growWorkflow(t, n) })
	}
}

// costs logs a line of docs/performance.md's table, and checks it.
func costs(t *testing.T, what string, c faultkv.Counts, mostReads, commits int64) {
	t.Helper()
	t.Logf("%-9s %3d reads %d commits %6d bytes", what, reads(c), c.Commits, c.Bytes)
	if reads(c) > mostReads || c.Commits != commits {
		t.Errorf("%s takes %d reads and %d commits, want at most %d and %d", what, reads(c), c.Commits, mostReads, commits)
	}
}

func growQueue(t *testing.T, n int) {
	s := newStage(t)
	opts := &queue.Options{Logger: slog.New(slog.DiscardHandler), MaxMessages: -1}
	q, err := queue.Open(t.Context(), s.actor, opts)
	s.must(err)
	for range n {
		_, err := q.Enqueue(t.Context(), queue.Send{Name: "job", Body: queue.Raw{0x01}})
		s.must(err)
	}
	s.must(q.Close())
	s.open()
	costs(t, "open", s.counts(func(ctx context.Context) (err error) {
		q, err = queue.Open(ctx, s.actor, opts)
		return err
	}), 8, 0)
	defer func() { s.must(q.Close()) }()
	costs(t, "enqueue", s.counts(func(ctx context.Context) error {
		_, err := q.Enqueue(ctx, queue.Send{Name: "job", Body: queue.Raw{0x01}})
		return err
	}), 1, 1)
	var msgs []*queue.Message
	costs(t, "receive", s.counts(func(ctx context.Context) (err error) {
		msgs, err = q.TryReceive(ctx, nil)
		return err
	}), 2, 1)
	costs(t, "complete", s.counts(func(ctx context.Context) error { return msgs[0].Complete(ctx, nil) }), 1, 1)
}

func growKeys(t *testing.T, n int) {
	s := newStage(t)
	u := s.actor.User()
	key := func(i int) []byte { return fmt.Appendf(nil, "setting/%06d", i) }
	for i := range n {
		s.must(u.Put(t.Context(), key(i), make([]byte, bodySize)))
	}
	s.open()
	u = s.actor.User()
	costs(t, "put", s.counts(func(ctx context.Context) error { return u.Put(ctx, key(n/2), make([]byte, bodySize)) }), 2, 1)
	costs(t, "again", s.counts(func(ctx context.Context) error { return u.Put(ctx, key(n/2), make([]byte, bodySize)) }), 0, 1)
}

func growWorkflow(t *testing.T, n int) {
	s := newStage(t)
	code := func(c *workflow.Context, n int) (int, error) {
		for i := range n {
			if _, err := workflow.Step(c, fmt.Sprint("step ", i), func(context.Context) (int, error) { return i, nil }); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
	opts := &workflow.Options{Logger: slog.New(slog.DiscardHandler), MaxEntries: -1, MaxBytes: -1}
	w, err := workflow.Open(t.Context(), s.actor, code, opts)
	s.must(err)
	s.must(w.Start(t.Context(), n))
	_, err = w.Live(t.Context())
	s.must(err)
	s.must(w.Close())
	s.open()
	costs(t, "open", s.counts(func(ctx context.Context) (err error) {
		w, err = workflow.Open(ctx, s.actor, code, opts)
		return err
	}), 8, 0)
	s.must(w.Close())
}
