package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/queue"
)

// queueLines is queue/cycle: a message is enqueued, received and completed, three durable
// commits. Many actors do so at once and share fsyncs, as they do in a host; the peer
// makes the same commits, of as many actors at once, through kv.Engine alone.
func queueLines(engine string) []line {
	return []line{{
		"queue/cycle", "cycle/s",
		side{"greenroom-" + engine, func(ctx context.Context, at site) (runner, error) { return openCycles(ctx, at) }},
		side{rawEngine, openRawCycles},
	}}
}

// cycleCommits is how many engine commits a cycle takes, cycleBody the size of a body.
const (
	cycleCommits = 3
	cycleBody    = 100
)

// A cycles is actors with queues.
type cycles struct {
	engine *faultkv.Engine
	store  *actorstore.Store
	actors []*actorstore.Actor
	queues []*queue.Queue
	body   queue.Raw
}

var _ runner = (*cycles)(nil)

func openCycles(ctx context.Context, at site) (c *cycles, err error) {
	engine, err := openEngine(at.engine, at.dir)
	if err != nil {
		return nil, err
	}
	c = &cycles{engine: faultkv.New(engine)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	// A byte string, made of noise.
	c.body = append(queue.Raw{0x58, cycleBody}, make([]byte, cycleBody)...)
	rnd := newRand(1)
	for i := range c.body[2:] {
		c.body[2+i] = byte(rnd.Uint32())
	}
	limits := batch.DefaultLimits()
	limits.Storage = 1 << 40
	if c.store, err = actorstore.Open(ctx, c.engine, &actorstore.Options{Limits: limits}); err != nil {
		return nil, err
	}
	for i := range at.sizes.actors {
		a, err := c.store.Named(ctx, fmt.Sprint("bench ", i), nil)
		if err != nil {
			return nil, err
		}
		c.actors = append(c.actors, a)
		q, err := queue.Open(ctx, a, &queue.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, err
		}
		c.queues = append(c.queues, q)
	}
	return c, nil
}

// cycle is the work of one operation.
func (c *cycles) cycle(ctx context.Context, q *queue.Queue) error {
	if _, err := q.Enqueue(ctx, queue.Send{Name: "job", Body: c.body}); err != nil {
		return err
	}
	msgs, err := q.TryReceive(ctx, nil)
	if err != nil {
		return err
	}
	if len(msgs) != 1 {
		return fmt.Errorf("received %d messages", len(msgs))
	}
	return msgs[0].Complete(ctx, nil)
}

func (c *cycles) run(ctx context.Context, n int) error {
	return together(len(c.queues), n, func(i int) error { return c.cycle(ctx, c.queues[i]) })
}

func (c *cycles) counts() faultkv.Counts { return c.engine.Counts() }

func (c *cycles) close() error {
	var errs []error
	for _, q := range c.queues {
		errs = append(errs, q.Close())
	}
	for _, a := range c.actors {
		errs = append(errs, a.Close())
	}
	if c.store != nil {
		errs = append(errs, c.store.Close())
	}
	return errors.Join(append(errs, c.engine.Close())...)
}

// together does n operations by some workers at once, each with its number, and returns
// the first error of each.
func together(workers, n int, operation func(worker int) error) error {
	errs := make([]error, workers)
	var left atomic.Int64
	left.Store(int64(n))
	var done sync.WaitGroup
	for i := range workers {
		done.Go(func() {
			for errs[i] == nil && left.Add(-1) >= 0 {
				errs[i] = operation(i)
			}
		})
	}
	done.Wait()
	return errors.Join(errs...)
}

// A cyclesPlayback plays the commits of cycles back, each actor its own.
type cyclesPlayback struct {
	engine  *faultkv.Engine
	commits [][]kv.Commit // by actor
	next    []int
}

var _ runner = (*cyclesPlayback)(nil)

// openRawCycles records some cycles of each actor in memory.
func openRawCycles(ctx context.Context, at site) (runner, error) {
	p := &cyclesPlayback{}
	if err := p.record(ctx, at); err != nil {
		return nil, err
	}
	engine, err := openEngine(at.engine, at.dir)
	if err != nil {
		return nil, err
	}
	p.engine = faultkv.New(engine)
	p.next = make([]int, len(p.commits))
	return p, nil
}

// cyclesKept is how many cycles of an actor are recorded.
const cyclesKept = 8

func (p *cyclesPlayback) record(ctx context.Context, at site) (err error) {
	at.engine = engineMem
	c, err := openCycles(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for _, q := range c.queues {
		// The first one creates the actor.
		if err := c.cycle(ctx, q); err != nil {
			return err
		}
		var commits []kv.Commit
		c.engine.Hook(func(op faultkv.Op) error {
			if op.Point == faultkv.BeforeCommit {
				commits = append(commits, keep(op.Commit))
			}
			return nil
		})
		for range cyclesKept {
			if err := c.cycle(ctx, q); err != nil {
				return err
			}
		}
		c.engine.Hook(nil)
		if len(commits) != cyclesKept*cycleCommits {
			return errManyCommits
		}
		p.commits = append(p.commits, commits)
	}
	return nil
}

func (p *cyclesPlayback) run(ctx context.Context, n int) error {
	return together(len(p.commits), n, func(i int) error {
		for range cycleCommits {
			if err := p.engine.Commit(ctx, &p.commits[i][p.next[i]]); err != nil {
				return err
			}
			p.next[i] = (p.next[i] + 1) % len(p.commits[i])
		}
		return nil
	})
}

func (p *cyclesPlayback) counts() faultkv.Counts { return p.engine.Counts() }

func (p *cyclesPlayback) close() error { return p.engine.Close() }
