package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/tuple"
	"github.com/greenroomdb/greenroom/workflow"
)

// A ledger is what has been worked on, of all hosts of a test.
type ledger struct {
	mu    sync.Mutex
	now   map[string]int // by a label; "" for all
	most  map[string]int
	begun []string // "actor body"
	times []time.Time
	done  map[string]int
}

func newLedger() *ledger {
	return &ledger{now: map[string]int{}, most: map[string]int{}, done: map[string]int{}}
}

// begin notes that something is begun, until the function that it returns is called.
func (l *ledger) begin(label, what string) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range []string{label, ""} {
		l.now[k]++
		l.most[k] = max(l.most[k], l.now[k])
	}
	l.begun, l.times = append(l.begun, what), append(l.times, time.Now())
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.now[label]--
		l.now[""]--
	}
}

// look calls fn while nothing is noted.
func (l *ledger) look(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn()
}

func (l *ledger) landed(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[what]++
}

// limited is a type whose messages, called "job", take a minute, under limits. Its actors are labelled by what is before the dash in their keys.
func limited(l *ledger, concurrency int, all ...*Limit) *Type {
	tenant := func(a Address) string { return a.Key[:1] }
	return &Type{
		Name: "thing", Limits: all,
		Create: func(c *Context) error { return c.Label("tenant", tenant(c.Address())) },
		Work: &Work{Concurrency: concurrency, Do: func(ctx context.Context, m *queue.Message) (func(*Context) error, error) {
			var what string
			if err := m.Decode(&what); err != nil {
				return nil, err
			}
			defer l.begin(what[:1], what)()
			select {
			case <-time.After(time.Minute):
				return func(c *Context) error { l.landed(what); return nil }, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}},
	}
}

// jobs sends n jobs to each actor.
func (r *rig) jobs(n int, actors ...string) {
	r.Helper()
	for i := range n {
		for _, a := range actors {
			_, err := r.Send(r.ctx, Address{"thing", a}, queue.Send{Name: "job", Body: fmt.Sprintf("%s %d", a, i)})
			must(r, err)
		}
	}
}

// rows returns how many rows the limits of the store have, of each kind.
func (r *rig) limitRows() (n int) {
	r.Helper()
	for name := range r.limits.named {
		for _, err := range limitRows(r.ctx, r.engine, name) {
			must(r, err)
			n++
		}
	}
	return n
}

// TestLimitConcurrency: actors together are at as many messages as the limit says, in turn, while those that wait may sleep, and in the end nothing is left.
func TestLimitConcurrency(t *testing.T) {
	for _, idle := range []time.Duration{10 * time.Second, time.Hour} {
		t.Run(idle.String(), func(t *testing.T) {
			l := newLedger()
			kind := limited(l, 2, &Limit{Name: "models", Concurrency: 3})
			bubble(t, Options{IdleTimeout: idle, MaxAwake: 6}, func(r *rig) {
				actors := []string{"a-1", "a-2", "a-3", "a-4", "a-5", "a-6", "a-7", "a-8", "b-1", "b-2"}
				r.jobs(3, actors...)
				pass(11*time.Minute + time.Second)
				l.look(func() {
					if l.most[""] != 3 || len(l.done) != 30 {
						t.Errorf("at once %v, done %d", l.most, len(l.done))
					}
				})
				pass(2 * time.Hour)
				r.wantAwake(0)
				if n := r.limitRows(); n != 0 {
					t.Errorf("%d rows of limits are left", n)
				}
			}, kind)
			for i := range l.begun {
				if got := l.done[l.begun[i]]; got != 1 {
					t.Errorf("%s was done %d times", l.begun[i], got)
				}
			}
			if len(l.begun) != 30 {
				t.Errorf("%d were begun: %v", len(l.begun), l.begun)
			}
		})
	}
}

// TestLimitLabel: each value of a label has a limit of its own.
func TestLimitLabel(t *testing.T) {
	l := newLedger()
	kind := limited(l, 1, &Limit{Name: "tenants", Label: "tenant", Concurrency: 2}, &Limit{Name: "all", Concurrency: 3})
	bubble(t, Options{IdleTimeout: 10 * time.Second}, func(r *rig) {
		r.jobs(1, "a-1", "a-2", "a-3", "a-4", "b-1", "b-2", "b-3", "b-4", "c-1")
		pass(time.Second)
		l.look(func() {
			if l.now[""] != 3 || l.now["a"] > 2 || l.now["b"] > 2 {
				t.Errorf("at first %v", l.now)
			}
		})
		pass(5 * time.Minute)
	}, kind)
	if l.most["a"] != 2 || l.most["b"] != 2 || l.most["c"] != 1 || len(l.done) != 9 {
		t.Errorf("at once %v, done %v", l.most, l.done)
	}
}

// TestLimitFair: a tenant with one actor doesn't wait for all of another one.
func TestLimitFair(t *testing.T) {
	l := newLedger()
	kind := limited(l, 1, &Limit{Name: "all", Concurrency: 1, Fair: "tenant"})
	bubble(t, Options{IdleTimeout: 10 * time.Second}, func(r *rig) {
		for _, a := range []string{"a-1", "a-2", "a-3", "a-4", "a-5", "c-1", "c-2", "b-1"} {
			r.jobs(1, a)
			pass(0) // it stands in the line
		}
		pass(9 * time.Minute)
	}, kind)
	var order []string
	for _, w := range l.begun {
		order = append(order, w[:3])
	}
	if want := []string{"a-1", "b-1", "c-1", "a-2", "c-2", "a-3", "a-4", "a-5"}; !slices.Equal(order, want) {
		t.Errorf("order %v", order)
	}
}

// TestLimitRate: a rate holds over a restart, and saves up as much as its burst.
func TestLimitRate(t *testing.T) {
	l := newLedger()
	kind := limited(l, 10, &Limit{Name: "calls", Rate: 6, Per: time.Minute, Burst: 3})
	bubble(t, Options{IdleTimeout: 10 * time.Second}, func(r *rig) {
		r.jobs(5, "a-1", "a-2")
		pass(time.Second)
		l.look(func() {
			if len(l.begun) != 3 {
				t.Errorf("%d at first", len(l.begun))
			}
		})
		pass(10 * time.Second)
		r.reopen()
		pass(time.Second)
		l.look(func() {
			if len(l.begun) > 5 { // those that the restart cut off are begun again
				t.Errorf("%d after a restart", len(l.begun))
			}
		})
		pass(10 * time.Minute)
		l.look(func() {
			if len(l.done) != 10 {
				t.Errorf("done %v", l.done)
			}
		})
	}, kind)
	wantRate(t, l.times, 3, 10*time.Second)
}

// TestLimitMessages: turns for messages have the limit, too.
func TestLimitMessages(t *testing.T) {
	l := newLedger()
	kind := &Type{
		Name: "thing", Limits: []*Limit{{Name: "calls", Rate: 1, Per: time.Second}},
		Message: func(c *Context, m *greenroom.Message) error {
			l.begin("a", c.Address().Key)()
			return nil
		},
	}
	bubble(t, Options{IdleTimeout: time.Second}, func(r *rig) {
		r.jobs(10, "a-1")
		r.jobs(1, "b-1")
		pass(10*time.Second + time.Millisecond)
		l.look(func() {
			if len(l.begun) != 11 || !slices.Contains(l.begun[:3], "b-1") { // whichever asks first
				t.Errorf("begun %v at %v", l.begun, l.times)
			}
		})
	}, kind)
}

// wantPairs fails the test unless this was begun, in this order but for that of the two of each pair.
func (l *ledger) wantPairs(t *testing.T, want ...string) {
	t.Helper()
	l.look(func() {
		got := slices.Clone(l.begun)
		for pair := range slices.Chunk(got, 2) {
			slices.Sort(pair)
		}
		if !slices.Equal(got, want) {
			t.Errorf("begun %v, want %v", l.begun, want)
		}
	})
}

// TestLimitWorkflows: as many workflows run as the limit says, in the order in which they were started, also over a restart; one that sleeps counts, and one that
// was cancelled, or whose actor is gone, doesn't.
func TestLimitWorkflows(t *testing.T) {
	l := newLedger()
	flow := NewWorkflow(func(c *workflow.Context, what string) (struct{}, error) {
		err := workflow.Do(c, "begin", func(context.Context) error {
			l.begin("a", what)
			return nil
		})
		c.Sleep("rest", time.Hour)
		l.landed(what)
		return struct{}{}, err
	}, nil)
	start := NewCommand("start", func(c *Context, _ struct{}) error { return c.StartWorkflow(c.Address().Key) })
	kind := &Type{Name: "thing", Workflow: flow, WorkflowLimits: []*Limit{{Name: "flows", Concurrency: 2}}, Actions: []AnyAction{start}}
	bubble(t, Options{IdleTimeout: time.Minute}, func(r *rig) {
		for i := range 9 {
			must(t, start.Call(r.ctx, r.Host, fmt.Sprint("a-", i), struct{}{}))
		}
		pass(30 * time.Minute)
		l.wantPairs(t, "a-0", "a-1")
		r.wantAwake(0)
		r.reopen()
		pass(31 * time.Minute)
		l.wantPairs(t, "a-0", "a-1", "a-2", "a-3")
		must(t, r.Visit(r.ctx, idOf(Address{"thing", "a-4"}), func(ctx context.Context, a *greenroom.Actor) error {
			return a.ControlWorkflow(ctx, func(w *workflow.Workflow) error { return w.Cancel(ctx) })
		}))
		must(t, r.Destroy(r.ctx, Address{"thing", "a-2"}))
		must(t, r.DropID(r.ctx, idOf(Address{"thing", "a-3"})))
		pass(2 * time.Minute)
		l.wantPairs(t, "a-0", "a-1", "a-2", "a-3", "a-5", "a-6")
		pass(3 * time.Hour)
		l.look(func() {
			if len(l.begun) != 8 || len(l.done) != 6 {
				t.Errorf("begun %v, done %v", l.begun, l.done)
			}
		})
		pass(2 * time.Hour)
		if n := r.limitRows(); n != 0 {
			t.Errorf("%d rows of limits are left", n)
		}
	}, kind)
}

// TestLimitRule: never more than the rate is given, where it doesn't divide its time either.
func TestLimitRule(t *testing.T) {
	for _, c := range []struct {
		rate int
		per  time.Duration
		want time.Duration
	}{{4, time.Minute, 15 * time.Second}, {7, 0, 142857143}, {600_000_000, 0, 2}, {1e9, 0, 1}} {
		if got := (&Limit{Name: "l", Rate: c.rate, Per: c.per}).rule().Every; got != c.want {
			t.Errorf("%d in %s: one every %s, want %s", c.rate, c.per, got, c.want)
		}
	}
}

// TestLimitChecks: limits that make no sense are refused.
func TestLimitChecks(t *testing.T) {
	work := limited(newLedger(), 1).Work
	for name, types := range map[string][]*Type{
		"no name":  {{Name: "a", Work: work, Limits: []*Limit{{Rate: 1}}}},
		"no bound": {{Name: "a", Work: work, Limits: []*Limit{{Name: "l"}}}},
		"negative": {{Name: "a", Work: work, Limits: []*Limit{{Name: "l", Rate: -1}}}},
		"nil":      {{Name: "a", Work: work, Limits: []*Limit{nil}}},
		"too fast": {{Name: "a", Work: work, Limits: []*Limit{{Name: "l", Rate: 2e9}}}},
		"too slow": {{Name: "a", Work: work, Limits: []*Limit{{Name: "l", Rate: 1, Per: 1000 * time.Hour, Burst: 1 << 40}}}},
		"no rate":  {{Name: "a", Work: work, Limits: []*Limit{{Name: "l", Concurrency: 1, Burst: 2}}}},
		"twice":    {{Name: "a", Work: work, Limits: []*Limit{{Name: "l", Rate: 1}, {Name: "l", Rate: 1}}}},
		"no work":  {{Name: "a", Limits: []*Limit{{Name: "l", Rate: 1}}}},
		"no flow":  {{Name: "a", WorkflowLimits: []*Limit{{Name: "l", Rate: 1}}}},
		"they differ": {
			{Name: "a", Work: work, Limits: []*Limit{{Name: "l", Rate: 1}}},
			{Name: "b", Work: work, Limits: []*Limit{{Name: "l", Rate: 2}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{})
			r.close()
			_, err := Open(r.ctx, r.engine, types, &Options{Logger: quiet})
			wantErr(t, err, ErrTypes)
		})
	}
}

// A fleet is several hosts on one store, each of which can be cut off from it.
type fleet struct {
	*testing.T
	base  kv.Engine
	kind  *Type
	cuts  []*faultkv.Engine
	hosts []*Host // nil for one that is down
}

// open starts the host with that number.
func (f *fleet) open(i int) {
	f.Helper()
	f.cuts[i] = faultkv.New(f.base)
	h, err := Open(f.Context(), engines.Shared(f.cuts[i]), []*Type{f.kind}, &Options{Logger: quiet, IdleTimeout: 20 * time.Second, MaxAwake: 8,
		Store: &greenroom.Options{Host: actorstore.HostOptions{Name: fmt.Sprint("host ", i)}}})
	must(f, err)
	f.hosts[i] = h
}

// kill cuts a host off from the store, for good, and returns what ends it.
func (f *fleet) kill(i int) (bury func()) {
	h := f.hosts[i]
	for p := faultkv.BeforeGet; p <= faultkv.BeforeAttempt; p++ {
		f.cuts[i].Fail(faultkv.Rule{Point: p, Times: faultkv.Forever})
	}
	f.hosts[i] = nil
	return func() { _ = h.Close(context.WithoutCancel(f.Context())) } // it says that it has lost everything
}

// TestLimitHosts is a model: three hosts, which are killed and started again at any time, do the work of actors under a limit of concurrency and rate. Never is more of it done at
// a time, or begun, than the limit says, also by the hosts that are cut off; and all of it is done.
func TestLimitHosts(t *testing.T) {
	for seed := range uint64(testkit.Pick(2, 3, 100)) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 28))
			limit := &Limit{Name: "models", Concurrency: 1 + rnd.IntN(3)}
			if rnd.IntN(2) == 0 {
				// A message takes a minute, so that more would be begun than the rate allows if Concurrency alone held it back.
				limit.Concurrency, limit.Rate, limit.Per, limit.Burst = 3, 1, time.Minute, 1+rnd.IntN(2)
			}
			l := newLedger()
			f := &fleet{T: t, base: memkv.New(), kind: limited(l, 2, limit), cuts: make([]*faultkv.Engine, 3), hosts: make([]*Host, 3)}
			f.run(rnd, 40)
			l.look(func() {
				if l.most[""] > limit.Concurrency {
					t.Errorf("%d at once, the limit is %d", l.most[""], limit.Concurrency)
				}
				if limit.Rate > 0 {
					wantRate(t, l.times, limit.Burst, limit.Per/time.Duration(limit.Rate))
				}
				if len(l.done) != 40 {
					t.Errorf("%d of 40 are done", len(l.done))
				}
			})
			if t.Failed() {
				t.Logf("seed %d, limit %+v", seed, *limit)
			}
		})
	}
}

// run sends jobs to actors while hosts come and go, and waits until all are done.
func (f *fleet) run(rnd *rand.Rand, jobs int) {
	var buried sync.WaitGroup
	for i := range f.hosts {
		f.open(i)
	}
	for sent := 0; sent < jobs; {
		i := rnd.IntN(len(f.hosts))
		switch h := f.hosts[i]; {
		case h == nil:
			f.open(i)
		case rnd.IntN(6) == 0:
			buried.Go(f.kill(i))
		default:
			a := fmt.Sprint([]string{"a", "b"}[rnd.IntN(2)], "-", rnd.IntN(5))
			_, err := h.Send(f.Context(), Address{"thing", a}, queue.Send{Name: "job", Key: fmt.Sprint(sent), Body: fmt.Sprintf("%s %d", a, sent)})
			if err == nil {
				sent++
			} else if !errors.Is(err, actorstore.ErrInUse) {
				f.Errorf("send: %v", err)
			}
		}
		pass(time.Duration(rnd.IntN(20)) * time.Second)
	}
	for i, h := range f.hosts {
		if h == nil {
			f.open(i)
		}
	}
	pass(3 * time.Hour)
	for _, h := range f.hosts {
		must(f, h.Close(f.Context()))
	}
	buried.Wait()
}

// wantRate fails the test if more was begun in any time than a bucket with so many tokens, and one more every so often, has.
func wantRate(t *testing.T, times []time.Time, burst int, every time.Duration) {
	t.Helper()
	for i := range times {
		for j := range i {
			if most := burst + int(times[i].Sub(times[j])/every); i-j+1 > most {
				t.Errorf("%d in %s, at most %d may be", i-j+1, times[i].Sub(times[j]), most)
				return
			}
		}
	}
}

// TestLimitNone: of a type without limits nothing is read or written of limits, and a message is one commit that sends it and one that handles it.
func TestLimitNone(t *testing.T) {
	kind := &Type{Name: "thing", Message: func(*Context, *greenroom.Message) error { return nil }}
	bubble(t, Options{}, func(r *rig) {
		r.jobs(1, "a-1")
		pass(time.Second)
		rows := faultkv.Prefix(tuple.NewSubspace(tuple.Tuple{"greenroom.host", int64(2)}).Bytes())
		var seen []*faultkv.Fault
		for _, p := range []faultkv.Point{faultkv.BeforeGet, faultkv.BeforeScan, faultkv.BeforeCommit} {
			seen = append(seen, r.engine.Fail(faultkv.Rule{Point: p, Match: rows}))
		}
		before := r.engine.Counts()
		r.jobs(10, "a-1")
		pass(20 * time.Second)
		if n := r.engine.Counts().Commits - before.Commits; n != 20 {
			t.Errorf("10 messages took %d commits", n)
		}
		for _, f := range seen {
			if f.Seen() > 0 {
				t.Errorf("rows of limits were met %d times", f.Seen())
			}
			f.Remove()
		}
	}, kind)
}

// TestLimitHangs: a store that doesn't answer about a permit ends the work under it before another host may have the permit.
func TestLimitHangs(t *testing.T) {
	ended := make(chan time.Time, 1)
	kind := &Type{
		Name: "thing", Limits: []*Limit{{Name: "models", Concurrency: 1}},
		Work: &Work{Do: func(ctx context.Context, _ *queue.Message) (func(*Context) error, error) {
			<-ctx.Done()
			select {
			case ended <- time.Now():
			default:
			}
			return nil, context.Cause(ctx)
		}},
	}
	bubble(t, Options{}, func(r *rig) {
		r.jobs(1, "a-1")
		pass(time.Minute)
		rows, end := tuple.NewSubspace(tuple.Tuple{"greenroom.host", int64(2)}).Range()
		hang := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever, Match: func(o faultkv.Op) bool {
			return len(o.Commit.Checks) == 1 && bytes.Compare(o.Commit.Checks[0].Key, rows) >= 0 && bytes.Compare(o.Commit.Checks[0].Key, end) < 0
		}})
		began := time.Now()
		pass(permitTime)
		select {
		case at := <-ended:
			if at.Sub(began) >= permitTime {
				t.Errorf("the work ended after %v", at.Sub(began))
			}
		default:
			t.Error("the work goes on, and its permit is over")
		}
		hang.Release()
	}, kind)
}

// TestLimitAgain: a workflow that waits for Resume keeps its permit, and one that is started again goes to the end of the line.
func TestLimitAgain(t *testing.T) {
	l := newLedger()
	var broken atomic.Bool
	broken.Store(true)
	flow := NewWorkflow(func(c *workflow.Context, what string) (struct{}, error) {
		_, err := workflow.StepWith(c, "step", &workflow.StepOptions{MaxAttempts: 1, Pause: true}, func(context.Context) (struct{}, error) {
			l.begin("a", what)()
			if broken.Load() {
				return struct{}{}, errRefused
			}
			return struct{}{}, nil
		})
		c.Sleep("rest", time.Minute)
		return struct{}{}, err
	}, nil)
	again := NewCommand("again", func(c *Context, what string) error { return c.StartWorkflowAgain(what) })
	kind := &Type{Name: "thing", Workflow: flow, WorkflowLimits: []*Limit{{Name: "flows", Concurrency: 1}}, Actions: []AnyAction{again}}
	bubble(t, Options{IdleTimeout: time.Second}, func(r *rig) {
		for _, a := range []string{"a-0", "a-1", "a-2"} {
			_, err := r.StartWorkflow(r.ctx, Address{"thing", a}, a)
			must(t, err)
		}
		pass(3 * time.Hour)
		l.wantPairs(t, "a-0")
		broken.Store(false)
		must(t, r.Visit(r.ctx, idOf(Address{"thing", "a-0"}), func(ctx context.Context, a *greenroom.Actor) error {
			return a.ControlWorkflow(ctx, func(w *workflow.Workflow) error { return w.Resume(ctx) })
		}))
		pass(90 * time.Second)
		must(t, again.Call(r.ctx, r.Host, "a-0", "again"))
		pass(time.Hour)
		l.look(func() {
			if want := []string{"a-0", "a-0", "a-1", "a-2", "again"}; !slices.Equal(l.begun, want) {
				t.Errorf("begun %v, want %v", l.begun, want)
			}
		})
	}, kind)
}
