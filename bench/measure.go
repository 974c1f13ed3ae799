package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"time"

	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A plan says how long a line is measured.
type plan struct {
	// rounds is the number of rounds; in each, both sides do the same work once.
	rounds int
	// round is how long one side takes for its part of a round, on average.
	round time.Duration
	// warm is how long each side runs before the first round.
	warm time.Duration
	// all is how long all rounds of a line may take together; where operations take long
	// there are fewer rounds, but at least leastRounds. 0 is no bound.
	all time.Duration
}

// leastRounds are so many that a median is one.
const leastRounds = 3

// within returns the number of rounds, each of which is expected to take so long.
func (p plan) within(round time.Duration) int {
	if p.all <= 0 || round <= 0 {
		return p.rounds
	}
	return min(p.rounds, max(leastRounds, int(p.all/round)))
}

var (
	fullPlan  = plan{rounds: 31, round: 300 * time.Millisecond, warm: time.Second, all: 45 * time.Second}
	quickPlan = plan{rounds: 9, round: 60 * time.Millisecond, warm: 120 * time.Millisecond, all: 1500 * time.Millisecond}
)

// A result is what was measured of one line.
type result struct {
	line
	rates sample
	// ops is the number of operations of one side in one round.
	ops int
	// counts are the subject's calls of its engine, in all rounds together.
	counts faultkv.Counts
	// fsyncs are those of the subject's engine, in all rounds together, what it does in the
	// background included.
	fsyncs measured
	// allocs and allocBytes are the heap objects and bytes that the process
	// allocated while the subject ran, in all rounds together; not known of one that runs in
	// a program of its own.
	allocs, allocBytes measured
	// subjectPeak and peerPeak are the most bytes of memory that the process of a side had
	// resident during its rounds; 0 where the system doesn't tell. Both sides are open
	// all the time, so that of a side in this process holds what the other one keeps.
	subjectPeak, peerPeak int64
	environment           string // what it was measured on, see record
}

// perOp divides a count of all rounds by the number of operations.
func (r result) perOp(n int64) float64 {
	return float64(n) / float64(r.ops*len(r.rates.subject))
}

// reads is the number of reads that the engine was asked for.
func (r result) reads() int64 { return r.counts.Gets + r.counts.Scans }

// perOpOf is perOp of what may not be known: nil then.
func (r result) perOpOf(m measured) *float64 {
	if !m.known {
		return nil
	}
	x := r.perOp(m.n)
	return &x
}

// waits is how often the engine was asked to have something on disk before it goes on.
// Engines answer several at once: fsyncs are fewer where many actors commit.
func (r result) waits() int64 { return r.counts.Durable + r.counts.Syncs }

// A clocked runner has a clock of its own, and its operations take the time that passes
// there: a pace that is kept by definition, or counts instead of seconds.
type clocked interface {
	// clock returns how much time has passed.
	clock() time.Duration
}

// A contestant is a side at work.
type contestant struct {
	runner
	// memory is the meter of the process in which it works.
	memory peakMeter
	// fsyncs tells how many there were so far.
	fsyncs func() measured
	// ctx carries a label for the profiler, so that samples of one side can be
	// told from others: pprof -tagfocus 'side=subject of sqlite/scan'.
	ctx context.Context
	// pace is how long one operation took at the end of the warm-up.
	pace time.Duration
}

// measure runs both sides of l in turns, in folders below at.dir and in new stores on
// at.server, both of which it leaves as it found them. The order within a round alternates, so that neither side
// always finds the other's mess.
func measure(ctx context.Context, l line, at site, p plan) (r result, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", l.title(), err)
		}
	}()
	debug.FreeOSMemory() // the peaks of this line hold nothing of the one before
	dir, err := os.MkdirTemp(at.dir, "line-")
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	at.dir = dir
	var sides [2]*contestant
	for i, which := range []string{"subject", "peer"} {
		own := at.own(which)
		defer func() { err = errors.Join(err, dropStore(ctx, own)) }()
		if sides[i], err = enter(ctx, l, which, own); err != nil {
			return result{}, err
		}
		defer func() { err = errors.Join(err, sides[i].close()) }()
	}
	return compete(l, sides[0], sides[1], p)
}

// enter opens one side of l in its own site, whose folder it makes.
func enter(ctx context.Context, l line, which string, at site) (*contestant, error) {
	s := l.subject
	if which == "peer" {
		s = l.peer
	}
	if err := os.Mkdir(at.dir, 0o755); err != nil {
		return nil, err
	}
	c := &contestant{}
	var err error
	// Goroutines inherit the label, but for Pebble's own, which have labels of theirs.
	pprof.Do(ctx, pprof.Labels("side", which+" of "+l.title()), func(ctx context.Context) {
		c.ctx = ctx
		c.runner, err = s.open(ctx, at)
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s.name, err)
	}
	c.memory, c.fsyncs = ownMemory, at.fsyncs.count
	if p, ok := c.runner.(*peer); ok {
		c.memory, c.fsyncs = p.memory(), func() measured { return p.fsyncs }
	}
	return c, nil
}

// compete warms both up and plays the rounds.
func compete(l line, subject, peer *contestant, p plan) (result, error) {
	for _, c := range []*contestant{subject, peer} {
		if err := c.warmUp(p.warm); err != nil {
			return result{}, err
		}
	}
	r := result{line: l, ops: max(1, int(2*p.round/(subject.pace+peer.pace)))}
	for i := range p.within(time.Duration(r.ops) * (subject.pace + peer.pace)) {
		if i%2 == 1 {
			if err := r.playPeer(peer); err != nil {
				return result{}, err
			}
		}
		if err := r.playSubject(subject); err != nil {
			return result{}, err
		}
		if i%2 == 0 {
			if err := r.playPeer(peer); err != nil {
				return result{}, err
			}
		}
	}
	return r, nil
}

func (r *result) playPeer(c *contestant) error {
	c.memory.reset()
	took, err := c.play(r.ops)
	r.peerPeak = max(r.peerPeak, c.memory.peak())
	r.rates.peer = append(r.rates.peer, rate(r.ops, took))
	return err
}

func (r *result) playSubject(c *contestant) error {
	c.memory.reset()
	before, fsyncs, objects, bytes := c.counts(), c.fsyncs(), heapMeter(allocObjects), heapMeter(allocBytes)
	took, err := c.play(r.ops)
	r.fsyncs = r.fsyncs.and(c.fsyncs().since(fsyncs))
	r.subjectPeak = max(r.subjectPeak, c.memory.peak())
	r.rates.subject = append(r.rates.subject, rate(r.ops, took))
	if _, elsewhere := c.runner.(*peer); !elsewhere {
		r.allocs = r.allocs.and(heapMeter(allocObjects).since(objects))
		r.allocBytes = r.allocBytes.and(heapMeter(allocBytes).since(bytes))
	}
	r.counts = plus(r.counts, minus(c.counts(), before))
	return err
}

// warmUp runs more and more operations until they take at least d together, and
// notes the pace.
func (c *contestant) warmUp(d time.Duration) error {
	var spent time.Duration
	for n := 1; ; n *= 2 {
		took, err := c.play(n)
		if err != nil {
			return err
		}
		c.pace = max(took/time.Duration(n), 1)
		if spent += took; spent >= d {
			return nil
		}
	}
}

// play times n operations. Garbage of what ran before is not on their bill.
func (c *contestant) play(n int) (took time.Duration, err error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	runtime.GC()
	pprof.SetGoroutineLabels(c.ctx)
	defer pprof.SetGoroutineLabels(context.Background())
	if own, ok := c.runner.(clocked); ok {
		start := own.clock()
		err = c.run(c.ctx, n)
		return own.clock() - start, err
	}
	start := time.Now()
	err = c.run(c.ctx, n)
	return time.Since(start), err
}

// rate is a throughput in operations per second. A clock that did not move counts
// as its smallest step.
func rate(n int, took time.Duration) float64 {
	return float64(n) / max(took, 1).Seconds()
}

// Metrics of the runtime; reading them stops nothing.
const (
	allocObjects = "/gc/heap/allocs:objects"
	allocBytes   = "/gc/heap/allocs:bytes"
)

func heapMeter(name string) measured {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return measured{int64(s[0].Value.Uint64()), true}
}

func plus(a, b faultkv.Counts) faultkv.Counts {
	return faultkv.Counts{
		Gets: a.Gets + b.Gets, Scans: a.Scans + b.Scans, Snapshots: a.Snapshots + b.Snapshots,
		Commits: a.Commits + b.Commits, Durable: a.Durable + b.Durable,
		Ops: a.Ops + b.Ops, Bytes: a.Bytes + b.Bytes, Syncs: a.Syncs + b.Syncs, Attempts: a.Attempts + b.Attempts,
	}
}

func minus(a, b faultkv.Counts) faultkv.Counts {
	return plus(a, faultkv.Counts{
		Gets: -b.Gets, Scans: -b.Scans, Snapshots: -b.Snapshots,
		Commits: -b.Commits, Durable: -b.Durable,
		Ops: -b.Ops, Bytes: -b.Bytes, Syncs: -b.Syncs, Attempts: -b.Attempts,
	})
}
