package host

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/queue"
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
			if l.now["a"] != 2 || l.now["b"] != 1 {
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
		r.jobs(1, "a-1", "a-2", "a-3", "a-4", "a-5", "c-1", "c-2", "b-1")
		pass(9 * time.Minute)
	}, kind)
	var order []string
	for _, w := range l.begun {
		order = append(order, w[:3])
	}
	if want := []string{"a-1", "b-1", "c-1", "a-2", "c-2", "a-3", "a-4", "a-5"}; !slices.Equal(order, want) && !slices.Equal(order, []string{"a-1", "c-1", "a-2", "b-1", "c-2", "a-3", "a-4", "a-5"}) {
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
	for i := range l.times {
		for j := range i {
			if d := l.times[i].Sub(l.times[j]); float64(i-j+1) > 3+d.Seconds()/10+0.001 {
				t.Fatalf("%d in %s", i-j+1, d)
			}
		}
	}
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
			if len(l.begun) != 11 || l.begun[1] != "b-1" && l.begun[2] != "b-1" {
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
