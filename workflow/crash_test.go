package workflow

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/queue"
)

// A saga is a workflow that uses every construct. Its effects are counters in the actor's
// keys, one for each place.
type saga struct {
	r     *rig
	fails bool           // at the end, so that everything is undone
	drawn map[int]string // what work outside has seen of what was drawn
}

// count returns a step whose effect is that a counter goes up.
func (s *saga) count(c *Context, name, key string, undo bool) (int, error) {
	add := func(b *batch.Batch, n int) error {
		v, err := s.r.counter(key)
		b.Put([]byte("\x04"+key), []byte{byte(v + n)})
		return err
	}
	o := &StepOptions{Backoff: time.Minute, MaxBackoff: time.Hour}
	if undo {
		o.Undo = undoIn(s.r, func(_ context.Context, b *batch.Batch, n int) error { return add(b, -n) })
	}
	return stepIn(c, name, o, func(ctx context.Context, b *batch.Batch) (int, error) {
		if info, _ := StepInfoOf(ctx); strings.Contains(name, "flaky") && info.Attempt == 1 {
			return 0, errors.New("not at first")
		}
		return 1, add(b, 1)
	})
}

// counter returns what an effect has counted.
func (r *rig) counter(key string) (int, error) {
	for e, err := range r.actor.User().List(ctx, userList(key)) {
		if err != nil {
			return 0, err
		}
		if string(e.Key) == key {
			return int(e.Value[0]), nil
		}
	}
	return 0, nil
}

// code does what workflows do, one after the other. key is that of an effect.
func (s *saga) code(c *Context, gen int) (string, error) {
	key := func(name string) string { return fmt.Sprint(gen, "/", name) }
	c.RollbackCheckpoint("from here")
	var out []string
	add := func(v ...any) { out = append(out, fmt.Sprint(v...)) }

	if _, err := s.count(c, "first", key("first"), true); err != nil {
		return "", err
	}
	if _, err := s.count(c, "flaky", key("flaky"), true); err != nil {
		return "", err
	}
	if err := s.draw(c, gen); err != nil {
		return "", err
	}
	add(Version(c, "version", 3))
	Removed[SleepEntry](c, "gone")
	n, err := s.loop(c, key)
	if add("loop ", n); err != nil {
		return "", err
	}
	if gen == 0 {
		ContinueAsNew(c, 1)
	}
	self, err := s.messages(c)
	if err != nil {
		return "", err
	}
	add(self)
	both, err := s.join(c, key)
	if add(both); err != nil {
		return "", err
	}
	winner, err := s.race(c, key)
	if add(winner); err != nil {
		return "", err
	}
	rest, err := s.others(c, key)
	if add(rest...); err != nil {
		return "", err
	}
	if s.fails {
		return "", errors.New("at last")
	}
	return strings.Join(out, ", "), nil
}

// draw draws an id and a time, and uses them in a step: each run sees the same.
func (s *saga) draw(c *Context, gen int) error {
	id, now := c.UUID("id"), c.Now("now")
	if v, err := StepWith(c, "uses what was drawn", &StepOptions{Unrecorded: true, MaxAttempts: -1}, func(context.Context) (string, error) {
		v := fmt.Sprint(id, now.UnixMilli())
		if before := s.drawn[gen]; before != "" && before != v {
			s.r.t.Errorf("work has seen %s, and after a restart %s", before, v)
		}
		s.drawn[gen] = v
		return v, nil
	}); err != nil || v != fmt.Sprint(id, now.UnixMilli()) {
		return fmt.Errorf("a later run has drawn %s again: %v, %w", v, id, err)
	}
	return nil
}

// loop sleeps in a loop, of which little is kept.
func (s *saga) loop(c *Context, key func(string) string) (int, error) {
	return LoopWith(c, "loop", 0, &LoopOptions{Commit: 2, Keep: 1}, func(c *Context, i *int) (int, bool, error) {
		if _, err := s.count(c, "in loop", key(fmt.Sprint("loop", *i)), false); err != nil {
			return 0, false, err
		}
		c.Sleep("pause", time.Hour)
		*i++
		return *i, *i == 4, nil
	})
}

// messages sends itself a message and receives it, and waits in vain for another one.
func (s *saga) messages(c *Context) (string, error) {
	if _, err := Send(c, "send", queue.Send{Name: "self", Body: "to myself"}); err != nil {
		return "", err
	}
	self, err := ReceiveWith[string](c, "from myself", &ReceiveOptions{Names: []string{"self"}})
	if err != nil {
		return "", err
	}
	if _, err := ReceiveWith[string](c, "nobody", &ReceiveOptions{Names: []string{"nobody"}, Timeout: time.Hour}); !errors.Is(err, ErrTimedOut) {
		return "", fmt.Errorf("nobody: %w", err)
	}
	return self.Body, nil
}

// join waits for two branches, one with a step and one with a message.
func (s *saga) join(c *Context, key func(string) string) (any, error) {
	return Join(c, "join",
		Branch[string]{"counts", func(c *Context) (string, error) {
			c.Sleep("before", time.Minute)
			n, err := s.count(c, "flaky in branch", key("branch"), true)
			return fmt.Sprint("counted ", n), err
		}},
		Branch[string]{"receives", func(c *Context) (string, error) {
			m, err := ReceiveWith[string](c, "go", &ReceiveOptions{Names: []string{"go"}, Completable: true})
			if err != nil {
				return "", err
			}
			c.Sleep("work", time.Hour)
			return m.Body, m.Complete(c, "went")
		}})
}

// race returns the name of the branch that is faster.
func (s *saga) race(c *Context, key func(string) string) (string, error) {
	winner, _, err := Race(c, "race",
		branchOf("slow", func(c *Context) (int, error) {
			if err := Do(c, "something", func(context.Context) error { return nil }); err != nil {
				return 0, err
			}
			c.Sleep("long", 1000*time.Hour)
			return 0, nil
		}),
		branchOf("fast", func(c *Context) (int, error) { return s.count(c, "counts", key("race"), false) }))
	return winner, err
}

// others uses what code doesn't: several messages at once, values that are drawn, a step that
// is recorded later, a time of day, a group, and forks and a loop inside of each other.
func (s *saga) others(c *Context, key func(string) string) (out []any, err error) {
	for _, name := range []string{"one", "two"} {
		if _, err := Send(c, name, queue.Send{Name: "both", Body: name}); err != nil {
			return nil, err
		}
	}
	c.SleepUntil("next hour", c.Now("hour").Truncate(time.Hour).Add(time.Hour))
	both, err := ReceiveAll[string](c, "both", &ReceiveOptions{Names: []string{"both"}, Count: 5})
	if err != nil {
		return nil, err
	}
	for _, m := range both {
		out = append(out, m.Body)
	}
	out = append(out, SideEffect(c, "effect", func() string { return "drawn" }), c.Rand("rand").IntN(10) < 10)
	free, err := StepWith(c, "free", &StepOptions{Ephemeral: true}, func(context.Context) (string, error) { return "free", nil })
	if err != nil {
		return nil, err
	}
	g := NewGroup("group")
	count := Go(g, "count", func(c *Context) (int, error) { return s.count(c, "in group", key("group"), true) })
	raced := Go(g, "race", func(c *Context) (string, error) {
		name, _, err := Race(c, "inner", branchOf("loses", func(c *Context) (int, error) {
			c.Sleep("long", 1000*time.Hour)
			return 0, nil
		}), branchOf("wins", func(c *Context) (int, error) {
			return Loop(c, "inner loop", 0, func(c *Context, i *int) (int, bool, error) {
				_, err := s.count(c, "in inner loop", key(fmt.Sprint("inner", *i)), true)
				*i++
				return *i, *i == 2, err
			})
		}))
		return name, err
	})
	err = g.Join(c)
	return append(out, free, count.Value(), raced.Value()), err
}

// An ending is what is there when all is over.
type ending struct {
	state  State
	output string
	counts string // of all effects
	left   int    // messages
}

// drive brings a saga to its end, through restarts whenever something fails.
func (s *saga) drive(live bool) (e ending) {
	r := s.r
	r.t.Helper()
	sent := false
	for range 300 {
		w, err := s.begin(&sent)
		if err == nil {
			e.state, err = s.further(w, live)
			if err == nil && (e.state == Completed || e.state == Failed) {
				break
			}
		}
		if err != nil {
			r.reopen()
		}
	}
	r.reopen()
	w := attach(r, s.code)
	e.output, _ = w.Output()
	r.same(w.Workflow)
	all := map[string]int{}
	var keys []string
	for u, err := range r.actor.User().List(ctx, userList("")) {
		must(r.t, err)
		all[string(u.Key)] = int(u.Value[0])
		keys = append(keys, string(u.Key))
	}
	sort.Strings(keys)
	for _, k := range keys {
		e.counts += fmt.Sprint(k, "=", all[k], " ")
	}
	e.left = r.q.Len()
	return e
}

// begin opens and starts what isn't.
func (s *saga) begin(sent *bool) (*Runner[int, string], error) {
	r := s.r
	if r.store == nil {
		if err := r.tryOpen(); err != nil {
			return nil, err
		}
	}
	for _, c := range r.closer {
		if err := c(); err != nil {
			return nil, err
		}
	}
	r.closer = nil
	opts := r.opts
	opts.Queue, opts.Clock = r.q, r.clock
	w, err := Open(ctx, r.actor, s.code, &opts)
	if err != nil {
		return nil, err
	}
	r.closer = append(r.closer, w.Close)
	if err := w.Start(ctx, 0); err != nil && !errors.Is(err, ErrOver) { // its end was not acknowledged
		return nil, err
	}
	if !*sent {
		if _, err := r.q.Enqueue(ctx, queue.Send{Name: "go", Body: "went", Key: "once"}); err != nil {
			return nil, err
		}
		*sent = true
	}
	return w, nil
}

// further runs the workflow as far as it comes, and lets time pass.
func (s *saga) further(w *Runner[int, string], live bool) (State, error) {
	if live {
		_, err := w.Live(ctx)
		if errors.Is(err, ErrFailed) {
			err = nil
		}
		return w.Status().State, err
	}
	st, err := w.Run(ctx)
	if err == nil && st.State == Sleeping {
		if st.Until.IsZero() {
			s.r.t.Errorf("it waits for nothing that comes: %+v", st)
		}
		later(max(0, time.Until(st.Until)))
	}
	return st.State, err
}

// TestCrashEverywhere stops a saga after each commit of the engine, and makes each operation
// of the engine fail once: the end is that of an undisturbed run.
func TestCrashEverywhere(t *testing.T) {
	type disturbance struct {
		name string
		step int // between the operations of the long form, and those of the quick one where that is a write
		read bool
		set  func(e *faultkv.Engine, n int) (hit func() bool)
	}
	fault := func(p faultkv.Point) func(*faultkv.Engine, int) func() bool {
		return func(e *faultkv.Engine, n int) func() bool {
			f := e.Fail(faultkv.Rule{Point: p, Skip: n, Err: errors.New("broken")})
			return func() bool { return f.Hits() > 0 }
		}
	}
	disturbances := []disturbance{
		{"stopped after a commit", 1, false, func(e *faultkv.Engine, n int) func() bool {
			e.Tear(n)
			before := e.Counts().Commits
			return func() bool { return e.Counts().Commits-before > int64(n) }
		}},
		{"commit fails", 1, false, fault(faultkv.BeforeCommit)},
		{"commit is not acknowledged", 1, false, fault(faultkv.AfterApply)},
		{"commit is not durable", 1, false, fault(faultkv.AfterCommit)},
		{"get fails", 1, true, fault(faultkv.BeforeGet)},
		{"scan fails", 1, true, fault(faultkv.BeforeScan)},
		{"entry fails", 11, true, fault(faultkv.BeforeEntry)},
		{"snapshot fails", 1, true, fault(faultkv.BeforeSnapshot)},
		{"sync fails", 1, false, fault(faultkv.BeforeSync)},
	}
	for _, fails := range []bool{false, true} {
		var want ending
		synctest.Test(t, func(t *testing.T) {
			want = (&saga{newRig(t), fails, map[int]string{}}).drive(false)
		})
		if fails && (want.state != Failed || !strings.Contains(want.counts, "1/flaky=0")) ||
			!fails && (want.state != Completed || !strings.Contains(want.counts, "1/flaky=1")) || want.left != 0 {
			t.Fatalf("undisturbed: %+v", want)
		}
		for _, d := range disturbances {
			for _, live := range []bool{false, true} {
				t.Run(fmt.Sprint(d.name, " fails ", fails, " live ", live), func(t *testing.T) {
					t.Parallel()
					points, step := 0, d.step*testkit.Pick(19, 1, 1)
					if d.read {
						step = d.step * testkit.Pick(19, 8, 1)
					}
					for n, hit := 0, true; hit; n += step {
						synctest.Test(t, func(t *testing.T) {
							s := &saga{newRig(t), fails, map[int]string{}}
							was := d.set(s.r.engine, n)
							reached := false
							s.r.healed = func() { reached = reached || was() }
							if got := s.drive(live); got != want {
								t.Errorf("at %d: got\n%+v\nwant\n%+v", n, got, want)
							}
							hit = reached
						})
						points++
					}
					t.Logf("%d points", points)
				})
			}
		}
	}
}
