package actorstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A fleet is some hosts on one engine, each of which opens, writes and reads the same
// few actors, hangs, dies and sets its clock, all at the same time. It holds every
// answer against what was acknowledged before the question.
type fleet struct {
	t     *testing.T
	below kv.Engine
	ids   []actorstore.ID
	until time.Time

	mu     sync.Mutex
	acked  map[actorstore.ID]int // the newest value that a writer was told is there
	tried  map[actorstore.ID]int // the newest value that a writer has tried
	epochs map[actorstore.ID]map[uint64]string
	log    []string
	// How often something happened, so that a run in which nothing does isn't taken for
	// a good one.
	reads, cached, writes, opened, fenced, deaths int
}

// A runner is one host of a fleet, from one death to the next.
type runner struct {
	*fleet
	*machine
	name   string
	rng    *rand.Rand
	actors map[actorstore.ID]*actorstore.Actor
	memory map[actorstore.ID]int // what the host keeps of each actor that it has open
}

// pass lets some of the time pass that is made up.
func pass(d time.Duration) { <-time.After(d) }

const fleetSkew = 2 * time.Second

func (f *fleet) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// wrong reports what must not happen, with what led to it.
func (f *fleet) wrong(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.t.Errorf(format, args...)
	for _, line := range f.log[max(0, len(f.log)-60):] {
		f.t.Log(line)
	}
}

// floor is the value below which no answer to a question asked now may be.
func (f *fleet) floor(id actorstore.ID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.acked[id]
}

// start opens a new store on the engine, as after a restart.
func (r *runner) start() {
	r.machine = newMachine(r.below)
	// Each clock is wrong by less than half of what two may differ by.
	r.set.Store(r.rng.Int64N(int64(fleetSkew)) - int64(fleetSkew)/2)
	r.eng.Hook(r.watch)
	r.open(r.t, actorstore.HostOptions{TTL: leaseTTL, MaxClockSkew: fleetSkew, Name: r.name})
	r.actors, r.memory = map[actorstore.ID]*actorstore.Actor{}, map[actorstore.ID]int{}
}

// watch sees to it that the commits of an epoch come from one handle.
func (r *runner) watch(op faultkv.Op) error {
	if op.Point != faultkv.AfterApply {
		return nil
	}
	for _, o := range op.Commit.Ops {
		of, part, ok := layout.ParseRecordKey(o.Key)
		id := actorstore.ID(of)
		if o.Kind != kv.OpSet || !ok || part != layout.PartHead {
			continue
		}
		h, err := layout.ParseHead(layout.ID(id), o.Value)
		if err != nil {
			r.wrong("%s writes %x", r.name, o.Value)
			continue
		}
		who := fmt.Sprintf("%s %x", r.name, h.Last[:8])
		r.mu.Lock()
		if r.epochs[id] == nil {
			r.epochs[id] = map[uint64]string{}
		}
		before, there := r.epochs[id][h.Epoch]
		r.epochs[id][h.Epoch] = who
		r.mu.Unlock()
		if there && before != who {
			r.wrong("epoch %d is %q's, and %q's", h.Epoch, before, who)
		}
	}
	return nil
}

// run does one thing after the other.
func (r *runner) run() {
	r.start()
	for time.Now().Before(r.until) {
		id := r.ids[r.rng.IntN(len(r.ids))]
		switch n := r.rng.IntN(100); {
		case n < 15:
			r.take(id)
		case n < 35:
			r.write(id)
		case n < 50:
			r.read(id)
		case n < 75:
			r.recall(id)
		case n < 80:
			r.giveAway(id)
		case n < 83:
			r.hang()
		case n < 85:
			r.suspend()
		case n < 86:
			r.restart()
		case n < 89:
			r.jump()
		default:
			pass(time.Duration(r.rng.Int64N(int64(leaseTTL / 2))))
		}
		// Nothing takes no time at all.
		pass(time.Duration(r.rng.Int64N(int64(200 * time.Millisecond))))
	}
	r.eng.Heal()
}

func (r *runner) take(id actorstore.ID) {
	if r.actors[id] != nil {
		return
	}
	opts := []*actorstore.ActorOptions{nil, waitFor, force}[r.rng.IntN(3)]
	limited, cancel := context.WithTimeout(ctx, 2*leaseTTL)
	defer cancel()
	a, err := r.Actor(limited, id, opts)
	if err != nil {
		r.note("%s can't open %s: %v", r.name, id, err)
		return
	}
	r.actors[id] = a
	r.note("%s opens %s", r.name, id)
	r.mu.Lock()
	r.opened++
	r.mu.Unlock()
	// A host that keeps an actor in memory reads all of it once.
	if v, ok := r.ask(id); ok {
		r.memory[id] = v
	}
}

// ask reads the value from the engine.
func (r *runner) ask(id actorstore.ID) (v int, ok bool) {
	limited, cancel := context.WithTimeout(ctx, leaseTTL)
	defer cancel()
	floor := r.floor(id)
	b, err := r.actors[id].Get(limited, user("k"), nil)
	switch {
	case err == nil:
		v, err = strconv.Atoi(string(b))
		must(r.t, err)
	case errors.Is(err, actorstore.ErrNotFound):
	default:
		r.ended(id, err)
		return 0, false
	}
	r.judge("reads", id, v, floor)
	return v, true
}

func (r *runner) judge(how string, id actorstore.ID, v, floor int) {
	r.mu.Lock()
	tried := r.tried[id]
	r.mu.Unlock()
	if v < floor || v > tried {
		r.wrong("%s %s %d from %s, where %d is acknowledged, and %d the newest there can be", r.name, how, v, id, floor, tried)
	}
	r.note("%s %s %d from %s, floor %d", r.name, how, v, id, floor)
}

func (r *runner) read(id actorstore.ID) {
	if r.actors[id] == nil {
		return
	}
	if v, ok := r.ask(id); ok {
		r.memory[id] = v
		r.mu.Lock()
		r.reads++
		r.mu.Unlock()
	}
}

// recall answers from memory, which is right as long as the actor is owned.
func (r *runner) recall(id actorstore.ID) {
	v, ok := r.memory[id]
	if !ok {
		return
	}
	limited, cancel := context.WithTimeout(ctx, leaseTTL)
	defer cancel()
	floor := r.floor(id)
	if err := r.actors[id].Owned(limited); err != nil {
		r.ended(id, err)
		return
	}
	r.judge("remembers", id, v, floor)
	r.mu.Lock()
	r.cached++
	r.mu.Unlock()
}

func (r *runner) write(id actorstore.ID) {
	a := r.actors[id]
	if a == nil {
		return
	}
	r.mu.Lock()
	r.tried[id]++
	v := r.tried[id]
	r.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, leaseTTL)
	defer cancel()
	if err := a.Put(limited, user("k"), []byte(strconv.Itoa(v))); err != nil {
		r.ended(id, err)
		return
	}
	r.note("%s writes %d to %s", r.name, v, id)
	r.mu.Lock()
	r.acked[id] = max(r.acked[id], v)
	r.writes++
	r.mu.Unlock()
	r.memory[id] = v
}

// ended forgets a handle that is of no use any more. One that could not be asked stays.
func (r *runner) ended(id actorstore.ID, err error) {
	r.note("%s, %s: %v", r.name, id, err)
	a := r.actors[id]
	if a.Err() == nil {
		if !errors.Is(err, context.DeadlineExceeded) {
			r.wrong("%s, %s: %v", r.name, id, err)
		}
		return
	}
	r.mu.Lock()
	r.fenced++
	r.mu.Unlock()
	r.giveAway(id)
}

func (r *runner) giveAway(id actorstore.ID) {
	if a := r.actors[id]; a != nil {
		delete(r.actors, id)
		delete(r.memory, id)
		must(r.t, a.Close())
	}
}

// hang keeps back everything that the host wants to write, or its renewals alone.
func (r *runner) hang() {
	if r.hostID().IsZero() {
		return
	}
	rule := faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever}
	if r.rng.IntN(2) == 0 {
		rule.Match = r.renewals()
	}
	if r.rng.IntN(4) == 0 {
		rule.Point = faultkv.AfterApply
	}
	d := time.Duration(r.rng.Int64N(int64(3 * leaseTTL)))
	r.note("%s hangs for %v", r.name, d)
	time.AfterFunc(d, r.eng.Pause(rule).Release)
}

// suspend stops the host with all that it is doing.
func (r *runner) suspend() {
	p := r.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever})
	defer p.Release()
	r.note("%s is suspended", r.name)
	pass(time.Duration(r.rng.Int64N(int64(3 * leaseTTL))))
}

// restart kills the host, and starts it again.
func (r *runner) restart() {
	if r.hostID().IsZero() {
		return
	}
	r.note("%s dies", r.name)
	r.eng.Heal()
	r.die()
	r.mu.Lock()
	r.deaths++
	r.mu.Unlock()
	// The handles are as dead as their host; they are closed when all is over.
	r.start()
}

// jump sets the clock, often by more than two may differ.
func (r *runner) jump() {
	d := time.Duration(r.rng.Int64N(int64(10*leaseTTL))) - 5*leaseTTL
	r.note("%s sets its clock by %v", r.name, d)
	r.set.Add(int64(d))
}

// TestLeaseModel: whatever hosts do, no answer is older than what was acknowledged
// before the question, the commits of an epoch are one handle's, and what was
// acknowledged last is what is stored.
func TestLeaseModel(t *testing.T) {
	runs := testkit.Pick(5, 20, 160)
	var sum fleet
	for seed := range uint64(runs) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fleet{
					t: t, below: memkv.New(), ids: []actorstore.ID{actorstore.NewID(), actorstore.NewID()}, until: time.Now().Add(10 * time.Minute),
					acked: map[actorstore.ID]int{}, tried: map[actorstore.ID]int{}, epochs: map[actorstore.ID]map[uint64]string{},
				}
				f.run(seed)
				sum.reads += f.reads
				sum.cached += f.cached
				sum.writes += f.writes
				sum.opened += f.opened
				sum.fenced += f.fenced
				sum.deaths += f.deaths
			})
		})
	}
	t.Logf("%d reads, %d from memory, %d writes, %d openings, %d fenced, %d deaths",
		sum.reads, sum.cached, sum.writes, sum.opened, sum.fenced, sum.deaths)
	if n := min(sum.reads, sum.cached, sum.writes, sum.opened, sum.fenced, sum.deaths); n < runs {
		t.Errorf("something happened only %d times in %d runs", n, runs)
	}
}

func (f *fleet) run(seed uint64) {
	var all sync.WaitGroup
	for i := range 3 {
		r := &runner{fleet: f, name: fmt.Sprint("host ", i), rng: rand.New(rand.NewPCG(seed, uint64(i)))}
		all.Go(r.run)
	}
	all.Wait()
	pass(3 * leaseTTL)
	last := boot(f.t, f.below, actorstore.HostOptions{})
	for _, id := range f.ids {
		a, err := last.Actor(ctx, id, force)
		must(f.t, err)
		got, _ := get(f.t, a, user("k"))
		if v, _ := strconv.Atoi(got); v < f.acked[id] || v > f.tried[id] {
			f.wrong("%s holds %q, %d is acknowledged", id, got, f.acked[id])
		}
		must(f.t, a.Close())
	}
	if found := problems(f.t, last.Store); len(found) > 0 {
		f.wrong("findings: %v", found)
	}
}
