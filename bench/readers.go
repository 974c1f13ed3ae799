package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/kv/faultkv"
)

const (
	// readerCount is how many readers sqlite/readers has.
	readerCount = 4
	// soloTime is how long they read alone, to see what they can do.
	soloTime = 400 * time.Millisecond
	// tick is how far a reader may be ahead of its pace before it waits.
	tick = time.Millisecond
)

// pacePeer is the peer of sqlite/readers: readers that keep the pace, whatever happens.
const pacePeer = "pace"

// readersLines is sqlite/readers: connections that read ranges of 100 rows at half the rate
// that they reach alone, beside one that commits one row after the other. The ratio is the
// part of that rate which they keep.
func readersLines(engine string) []line {
	var perSecond float64 // set by the subject, which is opened first
	return []line{{
		"sqlite/readers", "query/s",
		side{"greenroom-" + engine, func(ctx context.Context, at site) (runner, error) {
			r, err := openReaders(ctx, at)
			if err != nil {
				return nil, err
			}
			perSecond = r.pace
			return r, nil
		}},
		side{pacePeer, func(context.Context, site) (runner, error) { return &metronome{perSecond: perSecond}, nil }},
	}}
}

// A metronome has done its operations at its pace, by its own clock.
type metronome struct {
	perSecond float64
	now       time.Duration
}

var (
	_ runner  = (*metronome)(nil)
	_ clocked = (*metronome)(nil)
)

func (m *metronome) run(_ context.Context, n int) error {
	m.now += time.Duration(float64(n) / m.perSecond * float64(time.Second))
	return nil
}

func (m *metronome) clock() time.Duration { return m.now }

func (m *metronome) counts() faultkv.Counts { return faultkv.Counts{} }

func (m *metronome) close() error { return nil }

// readers read a database at a pace while it is written.
type readers struct {
	place   place
	conns   []*sqlite3.Conn
	reading []operation
	writing operation
	pace    float64       // queries per second, of all together
	spent   time.Duration // from the beginning of each run until the last reader was done
}

var (
	_ runner  = (*readers)(nil)
	_ clocked = (*readers)(nil)
)

func openReaders(ctx context.Context, at site) (r *readers, err error) {
	p, err := openActor(ctx, at)
	if err != nil {
		return nil, err
	}
	r = &readers{place: p}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if err := (workload{load: loadPoint}).fill(ctx, p, at.sizes); err != nil {
		return nil, err
	}
	for range readerCount {
		op, err := r.connect(func(c *sqlite3.Conn) (operation, error) { return startRange(c, at.sizes) })
		if err != nil {
			return nil, err
		}
		r.reading = append(r.reading, op)
	}
	r.writing, err = r.connect(func(c *sqlite3.Conn) (operation, error) { return newBulk(c, 1, newRows(blobSize)) })
	if err != nil {
		return nil, err
	}
	return r, r.setPace(ctx)
}

func (r *readers) connect(start func(*sqlite3.Conn) (operation, error)) (operation, error) {
	c, err := r.place.connect()
	if err != nil {
		return nil, err
	}
	r.conns = append(r.conns, c)
	return start(c)
}

// setPace has the readers read alone for a while; their pace is half of what they do.
func (r *readers) setPace(ctx context.Context) error {
	const batch = 16
	read := func(i int, more func() bool) error {
		return repeat(more, func() error { return r.reading[i].run(1) })
	}
	start, done := time.Now(), 0
	for time.Since(start) < soloTime {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := together(readerCount, readerCount*batch, read); err != nil {
			return err
		}
		done += readerCount * batch
	}
	r.pace = rate(done, time.Since(start)) / 2
	return nil
}

// run reads n times. The writer begins before, and ends after.
func (r *readers) run(ctx context.Context, n int) error {
	var stopped, writing sync.WaitGroup
	stop := make(chan struct{})
	var failed error
	writing.Go(func() {
		for failed == nil {
			failed = r.writing.run(1)
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	errs := make([]error, readerCount)
	start := time.Now()
	for i := range readerCount {
		stopped.Go(func() {
			// The first ones take what is left over.
			errs[i] = keepPace(ctx, start, r.pace/readerCount, (n+readerCount-1-i)/readerCount, r.reading[i])
		})
	}
	stopped.Wait()
	r.spent += time.Since(start)
	close(stop)
	writing.Wait()
	return errors.Join(append(errs, failed)...)
}

// keepPace does n operations, none before its time.
func keepPace(ctx context.Context, start time.Time, perSecond float64, n int, op operation) error {
	for i := range n {
		due := time.Duration(float64(i+1) / perSecond * float64(time.Second))
		if ahead := due - time.Since(start); ahead > tick {
			select {
			case <-time.After(ahead):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := op.run(1); err != nil {
			return err
		}
	}
	return nil
}

func (r *readers) clock() time.Duration { return r.spent }

func (r *readers) counts() faultkv.Counts { return r.place.counts() }

func (r *readers) close() error {
	var errs []error
	for _, op := range append(r.reading, r.writing) {
		if op != nil {
			errs = append(errs, op.close())
		}
	}
	for _, c := range r.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, r.place.close())...)
}
