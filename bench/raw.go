package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A playback is the peer "raw" of what writes: the engine commits of a workload through
// kv.Engine alone, one durable commit after the other. It shows what is left for
// everything above the engine to lose.
//
// The commits are recorded from the workload itself: same keys, same bytes, same
// number. Only the checks are missing, since they would not hold a second time.
type playback struct {
	engine  *faultkv.Engine
	commits []kv.Commit
	next    int
}

var _ runner = (*playback)(nil)

// openRaw records w in memory and prepares to play it back on a new engine. What a
// workload that was given something to load does is read it, which takes no recording.
func (w workload) openRaw(ctx context.Context, at site) (runner, error) {
	switch {
	case w.pages != nil:
		return w.openGlances(ctx, at)
	case w.load != nil:
		return w.openReadback(ctx, at)
	}
	commits, err := w.record(ctx, at)
	if err != nil {
		return nil, err
	}
	engine, err := openEngine(ctx, at)
	if err != nil {
		return nil, err
	}
	return &playback{engine: faultkv.New(engine), commits: commits}, nil
}

// errManyCommits means that an operation is no single commit: then playing back
// commits isn't playing back operations.
var errManyCommits = errors.New("the workload does not make one engine commit per operation")

// record runs w on a memory engine and returns the commits of its operations.
// As many again run before, because the first ones create the database.
func (w workload) record(ctx context.Context, at site) (commits []kv.Commit, err error) {
	at.engine = engineMem
	p, err := openActor(ctx, at)
	if err != nil {
		return nil, err
	}
	s, err := w.open(ctx, p, at.sizes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	n := at.sizes.recorded
	if w.recorded > 0 {
		n = min(n, w.recorded)
	}
	if err := s.run(ctx, n); err != nil {
		return nil, err
	}
	p.count.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeCommit {
			commits = append(commits, keep(op.Commit))
		}
		return nil
	})
	if err := s.run(ctx, n); err != nil {
		return nil, err
	}
	p.count.Hook(nil)
	if len(commits) != n {
		return nil, errManyCommits
	}
	return commits, nil
}

// keep copies what a commit changes.
func keep(c *kv.Commit) kv.Commit {
	kept := kv.Commit{Durability: c.Durability, Ops: make([]kv.Op, len(c.Ops))}
	for i, op := range c.Ops {
		kept.Ops[i] = kv.Op{Kind: op.Kind, Key: bytes.Clone(op.Key), Value: bytes.Clone(op.Value)}
	}
	return kept
}

// run makes the next n commits, over and over the same ones.
func (p *playback) run(ctx context.Context, n int) error {
	for range n {
		if err := p.engine.Commit(ctx, &p.commits[p.next]); err != nil {
			return err
		}
		p.next = (p.next + 1) % len(p.commits)
	}
	return nil
}

func (p *playback) counts() faultkv.Counts { return p.engine.Counts() }

func (p *playback) close() error { return p.engine.Close() }

// A readback is the peer "raw" of a full scan: every operation reads all that the
// store holds, from the first key to the last, with one scan of the engine. That is the
// same pages, their metadata rows besides, and no SQLite.
type readback struct {
	place *actorPlace
	rows  int
}

var _ runner = (*readback)(nil)

func (w workload) openReadback(ctx context.Context, at site) (runner, error) {
	p, err := openActor(ctx, at)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(w.fill(ctx, p, at.sizes), p.shut()); err != nil {
		return nil, errors.Join(err, p.close())
	}
	r := &readback{place: p}
	if r.rows, err = r.read(ctx); err == nil && r.rows == 0 {
		err = errors.New("the workload loads nothing")
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *readback) run(ctx context.Context, n int) error {
	for range n {
		rows, err := r.read(ctx)
		if err != nil {
			return err
		}
		if rows != r.rows {
			return fmt.Errorf("a scan found %d rows, not %d", rows, r.rows)
		}
	}
	return nil
}

func (r *readback) read(ctx context.Context) (rows int, err error) {
	for _, err := range r.place.count.Scan(ctx, kv.Range{}) {
		if err != nil {
			return 0, err
		}
		rows++
	}
	return rows, nil
}

func (r *readback) counts() faultkv.Counts { return r.place.counts() }

func (r *readback) close() error { return r.place.close() }
