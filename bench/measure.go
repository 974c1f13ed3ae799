package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
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
	// settled is the same for a line with a process of its own, which is slow to begin with after a pause, and for one with a side that has to be done
	// with what it does in the background when a round ends, which is a part of the round. A backup stores what is new once a second: in rounds of a third of that it would store three times as many objects, with the fsyncs of each,
	// as beside a store in use.
	settled time.Duration
	// warm is how long each side runs before the first round.
	warm time.Duration
	// all is how long all rounds of a line may take together; where operations take long
	// there are fewer rounds, but at least leastRounds. 0 means no bound.
	all time.Duration
}

// leastRounds are so many that a median has a 95 % interval.
const leastRounds = 6

// of returns how long a part of a round takes where these two compete.
func (p plan) of(subject, peer *stand) time.Duration {
	if subject.after != nil || peer.after != nil || len(subject.processes.ids)+len(peer.processes.ids) > 0 {
		return p.settled
	}
	return p.round
}

// within returns the number of rounds, each of which is expected to take so long.
func (p plan) within(round time.Duration) int {
	if p.all <= 0 || round <= 0 {
		return p.rounds
	}
	return min(p.rounds, max(leastRounds, int(p.all/round)))
}

var (
	fullPlan  = plan{rounds: 31, round: 300 * time.Millisecond, settled: time.Second, warm: time.Second, all: 45 * time.Second}
	quickPlan = plan{rounds: 9, round: 60 * time.Millisecond, settled: 60 * time.Millisecond, warm: 120 * time.Millisecond, all: 1500 * time.Millisecond}
)

// A tally is what was measured of one side. What isn't known is not a number.
type tally struct {
	took time.Duration
	// cpu are the seconds of processor time of the process, or of the side's own ones, what they do in the background
	// included.
	cpu float64
	// counts are the calls of the engine.
	counts faultkv.Counts
	// fsyncs are those of the engine, what it does in the background included.
	fsyncs float64
	// logged are the bytes of the engine's log.
	logged float64
	// allocs and allocBytes are the heap objects and bytes that the process allocated, of
	// which play alone takes notice.
	allocs, allocBytes float64
}

// plus adds another tally so many times.
func (t tally) plus(o tally, times int64) tally {
	a, b := t.counts, o.counts
	return tally{
		took: t.took + time.Duration(times)*o.took,
		cpu:  t.cpu + float64(times)*o.cpu,
		counts: faultkv.Counts{
			Gets: a.Gets + times*b.Gets, Scans: a.Scans + times*b.Scans, Snapshots: a.Snapshots + times*b.Snapshots,
			Commits: a.Commits + times*b.Commits, Durable: a.Durable + times*b.Durable,
			Ops: a.Ops + times*b.Ops, Bytes: a.Bytes + times*b.Bytes, Syncs: a.Syncs + times*b.Syncs, Attempts: a.Attempts + times*b.Attempts,
		},
		fsyncs: t.fsyncs + float64(times)*o.fsyncs, logged: t.logged + float64(times)*o.logged,
		allocs: t.allocs + float64(times)*o.allocs, allocBytes: t.allocBytes + float64(times)*o.allocBytes,
	}
}

// reads is the number of reads that the engine was asked for.
func (t tally) reads() int64 { return t.counts.Gets + t.counts.Scans }

// waits is how often the engine was asked to have something on disk before it goes on.
// Engines answer several at once: fsyncs are fewer where many actors commit.
func (t tally) waits() int64 { return t.counts.Durable + t.counts.Syncs }

// A result is what was measured of one line.
type result struct {
	line
	rates sample
	// ops is the number of operations of one side in one round.
	ops int
	// tally is the subject's of all rounds together, and peerCPU the peer's part of what is
	// in its own.
	tally
	peerCPU float64
	// subjectTook and peerTook are how long the operations of all rounds took.
	subjectTook, peerTook latencies
	durable               *durability
}

// perOp divides a count of all rounds by the number of operations.
func (r result) perOp(n int64) float64 { return r.each(float64(n)) }

func (r result) each(n float64) float64 { return n / float64(r.ops*len(r.rates.subject)) }

// measure runs both sides of l in turns, in folders and stores of their own, which it leaves
// as it found them. The order within a round alternates, so that neither side always finds
// the other's mess.
func (s *stand) measure(l line, p plan) (r result, err error) {
	debug.FreeOSMemory() // so that this line is measured without what the last one left
	err = s.visit(func(*stand) {
		at := s.site
		at.pace = new(float64)
		r = compete(l, s.enter(at, l.subject, "subject of "+l.title()), s.enter(at, l.peer, "peer of "+l.title()), p)
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", l.title(), err)
	}
	return r, err
}

// enter opens one side of a line. The profiler has it under label.
func (s *stand) enter(at site, of side, label string) *stand {
	own := s.newStand(at, of.name)
	// Goroutines inherit the label, but for Pebble's own, which have labels of theirs.
	pprof.Do(s.ctx, pprof.Labels("side", label), func(ctx context.Context) {
		own.ctx = ctx
		of.open(own)
	})
	return own
}

// compete warms both up and plays the rounds.
func compete(l line, subject, peer *stand, p plan) result {
	each := subject.warmUp(p.warm) + peer.warmUp(p.warm) // an operation on both sides
	r := result{line: l, ops: max(1, int(2*p.of(subject, peer)/each))}
	for i := range p.within(time.Duration(r.ops) * each) {
		if i%2 == 1 {
			r.playPeer(peer)
		}
		r.playSubject(subject)
		if i%2 == 0 {
			r.playPeer(peer)
		}
	}
	r.countFsyncs(subject, peer)
	return r
}

func (r *result) playSubject(s *stand) {
	t := s.play(r.ops)
	r.tally = r.tally.plus(t, 1)
	r.rates.subject = append(r.rates.subject, rate(r.ops, t.took))
	r.subjectTook.add(s.took)
}

func (r *result) playPeer(s *stand) {
	t := s.play(r.ops)
	r.peerCPU += t.cpu
	r.rates.peer = append(r.rates.peer, rate(r.ops, t.took))
	r.peerTook.add(s.took)
}

// warmUp runs more and more operations until they take at least d together, and returns how
// long one took at the end.
func (s *stand) warmUp(d time.Duration) (pace time.Duration) {
	for n, spent := 1, time.Duration(0); ; n *= 2 {
		t := s.play(n)
		if spent += t.took; spent >= d {
			return max(t.took/time.Duration(n), 1)
		}
	}
}

// play measures n operations, with what they allocate.
// Garbage of what ran before is not on their bill.
func (s *stand) play(n int) (t tally) {
	check(s.ctx.Err())
	runtime.GC()
	pprof.SetGoroutineLabels(s.ctx)
	defer pprof.SetGoroutineLabels(context.Background())
	var before, after runtime.MemStats // to the last object, which package metrics tells after a collection only
	runtime.ReadMemStats(&before)
	t = s.measured(n)
	runtime.ReadMemStats(&after)
	t.allocs += float64(after.Mallocs - before.Mallocs)
	t.allocBytes += float64(after.TotalAlloc - before.TotalAlloc)
	return t
}

// measured does n operations, and measures them.
func (s *stand) measured(n int) tally {
	t := s.time(func() { check(s.do(n)) })
	if s.say != nil {
		s.say(n, &t)
	}
	return t
}

// time measures what f does.
func (s *stand) time(f func()) tally {
	before, start := s.tally(), time.Now()
	f()
	took := time.Since(start)
	t := s.tally().plus(before, -1)
	t.took = took
	return t
}

// tally is what the stand's engines and its process have counted up to now.
func (s *stand) tally() (t tally) {
	if s.engine != nil {
		t.counts = s.engine.Counts()
	}
	t.cpu, t.fsyncs, t.logged = cpuTime(), s.fsyncs.count(), s.fsyncs.logBytes()
	if len(s.processes.ids) > 0 {
		_, cpu := tree(s.processes.ids)
		if s.processes.here {
			cpu += t.cpu
		}
		t.cpu = cpu
	}
	return t
}

// rate is a throughput in operations per second. A clock that did not move counts
// as its smallest step.
func rate(n int, took time.Duration) float64 {
	return float64(n) / max(took, 1).Seconds()
}
