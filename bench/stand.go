package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A site is where a side lives, and how much it holds.
type site struct {
	// dir is a folder of the side's own.
	dir string
	// bin is the folder for the programs that are built for a run.
	bin string
	// on is the engine: "pebble", "mem" or "postgres".
	on    string
	sizes sizes
	// trip is how long a call of the engine takes besides. Unless it is 0 the engine is the one
	// in memory, and counts as one behind a network.
	trip time.Duration
	// server is where stores in PostgreSQL are, and url the address of the side's own,
	// which isn't there before the side opens it.
	server *server
	url    string
	// pace is what the subject of sqlite/readers, which opens first, tells its peer.
	pace *float64
}

// sizes says how much data the workloads use.
type sizes struct {
	// bulk is the number of rows of one bulk transaction.
	bulk int
	// blobs is the number of blobs of blobLength of one transaction.
	blobs int
	// point is the number of rows that point reads and ranges choose from: they fit the
	// page cache of SQLite.
	point int
	// scan is the number of rows of a full scan: they don't fit scanCache.
	scan int
	// actors is how many actors work at once where there are many.
	actors int
	// opens is how many databases are opened one after the other.
	opens int
	// many is how many actors a store has in which those are a few.
	many int
	// speedtest is speedtest1's own measure of work, in percent.
	speedtest int
	// texts is how many bytes of text are searched, and build how many go into an index at once.
	texts, build int
}

// The sizes of a measurement, and of one with -quick, where what would take longest is
// smaller. Tests use smaller ones still.
var (
	fullSizes  = sizes{bulk: 100_000, blobs: 10, point: 10_000, scan: 100_000, actors: 200, opens: 50, many: 10_000, speedtest: 25, texts: 50 << 20, build: 4 << 20}
	quickSizes = sizes{bulk: 10_000, blobs: 10, point: 10_000, scan: 20_000, actors: 200, opens: 50, many: 1000, speedtest: 5, texts: 1 << 20, build: 1 << 18}
)

// A stand is one side of a line at work in its site. To open a side is to prepare its data
// there and to set workers or run; nothing of that is timed. What a stand opens it closes
// at its end, in reverse order.
//
// Code within a visit calls check and must instead of returning errors: visit returns them.
// Operations return theirs, since they may run on goroutines of their own.
type stand struct {
	site
	// ctx carries a label for the profiler, so that samples of one side can be told from
	// others: pprof -tagfocus 'side=subject of sqlite/scan'.
	ctx context.Context
	// engine and store are nil while they aren't open.
	engine *faultkv.Engine
	store  *actorstore.Store
	// fsyncs counts those of the engines that were opened here.
	fsyncs fsyncMeter

	// workers share the operations, each on a goroutine of its own if there are several.
	workers []worker
	// run does n operations, for a side that has no workers.
	run func(n int) error
	// after is called at the end of a round of workers, as a part of it. Nil is nothing.
	after func() error
	// say corrects what was measured of n operations, for a side that has a clock of its
	// own or works in another process. Nil says that nothing is to be corrected.
	say func(n int, t *tally)

	processes processes

	// took is how long each of the operations took that workers did last.
	took []time.Duration

	ends []func() error
	kept int // how many ends restart leaves
}

// A worker does one operation after the other, as long as more says so.
type worker func(more func() bool) error

// repeat is the worker that calls operation.
func repeat(operation func() error) worker {
	return func(more func() bool) error {
		for more() {
			if err := operation(); err != nil {
				return err
			}
		}
		return nil
	}
}

// countdown says n times that there is more. It is safe for concurrent use.
func countdown(n int) (more func() bool) {
	var left atomic.Int64
	left.Store(int64(n))
	return func() bool { return left.Add(-1) >= 0 }
}

// together has all workers work at once, each as long as its own more says, and returns all
// their errors.
func together(workers []worker, more func(i int) func() bool) error {
	if len(workers) == 1 {
		return workers[0](more(0))
	}
	errs := make([]error, len(workers))
	var done sync.WaitGroup
	for i, work := range workers {
		done.Go(func() { errs[i] = work(more(i)) })
	}
	done.Wait()
	return errors.Join(errs...)
}

// do does n operations. This is what is timed.
func (s *stand) do(n int) error {
	if s.run != nil {
		return s.run(n)
	}
	s.took = slices.Grow(s.took[:0], n)[:n]
	all := stopwatch{took: s.took}
	err := together(s.workers, func(int) func() bool { return all.more() })
	if err == nil && s.after != nil {
		err = s.after()
	}
	return err
}

// newStand makes a stand in a new folder below at.dir and with a new store on at.server,
// both of which go with its end. It is part of s, with which it closes at the latest.
func (s *stand) newStand(at site, name string) *stand {
	own := &stand{site: at, ctx: s.ctx}
	s.end(own.close)
	own.dir = filepath.Join(at.dir, name)
	check(os.Mkdir(own.dir, 0o755))
	own.end(func() error { return os.RemoveAll(own.dir) })
	if at.server != nil {
		own.url = at.server.newStore()
		own.end(func() error { return dropStore(s.ctx, own.url) })
	}
	own.kept = len(own.ends)
	return own
}

// begin makes a stand for a run, which has neither a folder nor a store.
func begin(ctx context.Context) *stand { return &stand{ctx: ctx} }

// A failure is what check panics with.
type failure struct{ error }

// check ends the visit with err, unless that is nil.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must returns v unless there is an error, with which it ends the visit.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// end registers f. The stand calls it when it closes, before what was registered earlier.
func (s *stand) end(f func() error) { s.ends = append(s.ends, f) }

// owned returns v, which the stand closes.
func owned[T io.Closer](s *stand, v T) T {
	s.end(v.Close)
	return v
}

// visit calls do, closes what was opened in it, and returns what check ended it with.
func (s *stand) visit(do func(*stand)) (err error) {
	opened := len(s.ends)
	defer func() {
		r := recover()
		f, ok := r.(failure)
		if r != nil && !ok {
			panic(r)
		}
		err = errors.Join(f.error, s.closeTo(opened))
	}()
	do(s)
	return nil
}

// restart closes everything but what holds the data: the folder, and memory. What is
// opened then finds the data where they come to rest, not where they were just written.
func (s *stand) restart() { check(s.closeTo(s.kept)) }

// close gives everything back.
func (s *stand) close() error { return s.closeTo(0) }

// closeTo closes what was opened after the first n.
func (s *stand) closeTo(n int) error {
	var errs []error
	for len(s.ends) > n {
		i := len(s.ends) - 1
		last := s.ends[i]
		s.ends = slices.Delete(s.ends, i, i+1) // and lets go of what it holds
		errs = append(errs, last())
	}
	return errors.Join(errs...)
}

// workBy returns what opens a side by so many workers instead, given how many there would
// be.
func workBy(actors func(int) int, open func(*stand)) func(*stand) {
	return func(s *stand) {
		s.sizes.actors = actors(s.sizes.actors)
		open(s)
	}
}

// alone has a side's work done by one actor, and byThousands by ten times as many as
// elsewhere.
func alone(int) int { return 1 }

func byThousands(actors int) int { return 10 * actors }

// name is what the i-th of several actors or databases is called.
func name(i int) string { return fmt.Sprint("bench ", i) }
