package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A job is what many actors do at once, each for itself, sharing fsyncs as they do in a
// host. Its peer makes the same commits, of as many at once, through kv.Engine alone.
type job struct {
	name, unit string
	// commits is how many durable engine commits an operation makes, each of them.
	commits int
	// kept is how many operations of each actor the peer records and plays back.
	kept int
	// begin has an actor, the i-th, take up the job.
	begin func(ctx context.Context, a *actorstore.Actor, i int) (shift, error)
}

// A shift is one actor at its job, used from one goroutine at a time.
type shift interface {
	// work does one operation after the other, as long as more says so.
	work(ctx context.Context, more func() bool) error
	// close ends the shift, not the actor.
	close() error
}

// jobs returns all there are, in the order of the table.
func jobs() []job { return []job{insertsJob(), putJob(), cycleJob(), stepJob()} }

// crowdLines pairs every job with its peers.
func crowdLines(engine string) []line {
	var lines []line
	for _, j := range jobs() {
		if engine != enginePostgres {
			for _, peer := range crowdPeers[j.name] {
				lines = append(lines, line{j.name, j.unit, j.side(engine, peer.actors), peer.side})
			}
		}
		lines = append(lines, line{
			j.name, j.unit, j.side(engine, 0),
			side{rawEngine, func(ctx context.Context, at site) (runner, error) { return openRawCrowd(ctx, j, at) }},
		})
	}
	return lines
}

// A crowdPeer is a peer of a job that keeps what it does in SQLite databases elsewhere, and
// by how many actors the job is done then; 0 leaves it to the sizes.
type crowdPeer struct {
	actors int
	side   side
}

var crowdPeers = map[string][]crowdPeer{
	"sqlite/insert-200": {{0, side{fileWALFull, openFiles}}, {0, side{memoryVFS, openMemories}}},
	"queue/cycle":       {{1, side{sqliteFile, openFileQueue}}},
}

// side is j done by some actors, or as many as the sizes say.
func (j job) side(engine string, actors int) side {
	return side{"greenroom-" + engine, func(ctx context.Context, at site) (runner, error) {
		if actors > 0 {
			at.sizes.actors = actors
		}
		return openCrowd(ctx, j, at)
	}}
}

// A crowd is actors of one store at a job.
type crowd struct {
	engine *faultkv.Engine
	store  *actorstore.Store
	actors []*actorstore.Actor
	shifts []shift
}

var _ runner = (*crowd)(nil)

func openCrowd(ctx context.Context, j job, at site) (c *crowd, err error) {
	engine, err := openEngine(ctx, at)
	if err != nil {
		return nil, err
	}
	c = &crowd{engine: faultkv.New(engine)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.store, err = openStore(ctx, c.engine); err != nil {
		return nil, err
	}
	for i := range at.sizes.actors {
		a, err := c.store.Named(ctx, fmt.Sprint("bench ", i), nil)
		if err != nil {
			return nil, err
		}
		c.actors = append(c.actors, a)
		s, err := j.begin(ctx, a, i)
		if err != nil {
			return nil, err
		}
		c.shifts = append(c.shifts, s)
	}
	return c, nil
}

func (c *crowd) run(ctx context.Context, n int) error {
	return together(len(c.shifts), n, func(i int, more func() bool) error { return c.shifts[i].work(ctx, more) })
}

func (c *crowd) counts() faultkv.Counts { return c.engine.Counts() }

func (c *crowd) close() error {
	var errs []error
	for _, s := range c.shifts {
		errs = append(errs, s.close())
	}
	for _, a := range c.actors {
		errs = append(errs, a.Close())
	}
	if c.store != nil {
		errs = append(errs, c.store.Close())
	}
	return errors.Join(append(errs, c.engine.Close())...)
}

// together does n operations by some workers at once, each with its number, as long as
// more says that there are some left, and returns the first error of each.
func together(workers, n int, work func(worker int, more func() bool) error) error {
	errs := make([]error, workers)
	var left atomic.Int64
	left.Store(int64(n))
	more := func() bool { return left.Add(-1) >= 0 }
	var done sync.WaitGroup
	for i := range workers {
		done.Go(func() { errs[i] = work(i, more) })
	}
	done.Wait()
	return errors.Join(errs...)
}

// repeat does an operation as long as more says so.
func repeat(more func() bool, operation func() error) error {
	for more() {
		if err := operation(); err != nil {
			return err
		}
	}
	return nil
}

// A rawCrowd plays the commits of a crowd back, each actor its own.
type rawCrowd struct {
	engine  *faultkv.Engine
	each    int           // commits of an operation
	commits [][]kv.Commit // by actor
	next    []int
}

var _ runner = (*rawCrowd)(nil)

// openRawCrowd records some operations of each actor in memory.
func openRawCrowd(ctx context.Context, j job, at site) (runner, error) {
	commits, err := j.record(ctx, at)
	if err != nil {
		return nil, err
	}
	engine, err := openEngine(ctx, at)
	if err != nil {
		return nil, err
	}
	return &rawCrowd{faultkv.New(engine), j.commits, commits, make([]int, len(commits))}, nil
}

// record returns the commits of j.kept operations of each actor. As many run before,
// because the first ones make what the later ones find.
func (j job) record(ctx context.Context, at site) (commits [][]kv.Commit, err error) {
	at.engine = engineMem
	c, err := openCrowd(ctx, j, at)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for _, s := range c.shifts {
		if err := doMany(ctx, s, j.kept); err != nil {
			return nil, err
		}
		var of []kv.Commit
		c.engine.Hook(func(op faultkv.Op) error {
			if op.Point == faultkv.BeforeCommit {
				of = append(of, keep(op.Commit))
			}
			return nil
		})
		err := doMany(ctx, s, j.kept)
		c.engine.Hook(nil)
		if err != nil {
			return nil, err
		}
		if len(of) != j.kept*j.commits {
			return nil, errManyCommits
		}
		commits = append(commits, of)
	}
	return commits, nil
}

func doMany(ctx context.Context, s shift, n int) error {
	return s.work(ctx, func() bool { n--; return n >= 0 })
}

func (c *rawCrowd) run(ctx context.Context, n int) error {
	return together(len(c.commits), n, func(i int, more func() bool) error {
		return repeat(more, func() error { return c.play(ctx, i) })
	})
}

// play makes the commits of an operation of the i-th actor.
func (c *rawCrowd) play(ctx context.Context, i int) error {
	for range c.each {
		if err := c.engine.Commit(ctx, &c.commits[i][c.next[i]]); err != nil {
			return err
		}
		c.next[i] = (c.next[i] + 1) % len(c.commits[i])
	}
	return nil
}

func (c *rawCrowd) counts() faultkv.Counts { return c.engine.Counts() }

func (c *rawCrowd) close() error { return c.engine.Close() }
