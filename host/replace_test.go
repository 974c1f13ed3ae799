package host

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// edition returns a version of a type, whose actors tell it.
func edition(version string, more ...AnyAction) *Type {
	k := thing(append(more, NewAction("version", func(*Context, struct{}) (string, error) { return version, nil }),
		NewCommand("fail", func(*Context, struct{}) error { return errors.New("no") }))...)
	k.Version = version
	return k
}

// failures count failed turns by the version of the type.
type failures struct {
	mu sync.Mutex
	of map[string]int64
}

func (f *failures) Add(m *metrics.Metric, n int64) {
	if m.Name == "host_turns_failed" {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.of[m.Labels[len(m.Labels)-1].Value] += n
	}
}

func (*failures) Observe(*metrics.Metric, time.Duration) {}

// replace puts another version of a type in place, and returns when no actor has the old one.
func replace(ctx context.Context, h *Host, t *Type, keep time.Duration) error {
	gone, err := h.Replace(ctx, t, keep)
	if err != nil {
		return err
	}
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestReplace: actors that are awake keep the version that they woke with until they sleep, at most so long, and others are of the new one at once; failures are counted by version.
func TestReplace(t *testing.T) {
	failed := failures{of: map[string]int64{}}
	var entered, let chan struct{}
	only := NewAction("only one", func(*Context, struct{}) (string, error) { close(entered); <-let; return "one", nil })
	bubble(t, Options{IdleTimeout: time.Minute, Metrics: &failed}, func(r *rig) {
		entered, let = make(chan struct{}), make(chan struct{})
		version := func(key string) string {
			t.Helper()
			got, err := invoke[string](r.ctx, r.Host, Address{"thing", key}, "version", nil)
			must(t, err)
			return got
		}
		fail := func(key string) {
			t.Helper()
			if _, err := invoke[struct{}](r.ctx, r.Host, Address{"thing", key}, "fail", nil); err == nil {
				t.Error("no error")
			}
		}
		busy, quiet := Address{"thing", "busy"}, Address{"thing", "quiet"}
		version("busy")
		version("quiet")
		fail("quiet")
		working := make(chan string, 1)
		go func() {
			got, err := invoke[string](r.ctx, r.Host, busy, "only one", nil)
			must(t, err)
			working <- got
		}()
		<-entered
		replaced := make(chan error, 1)
		go func() { replaced <- replace(r.ctx, r.Host, edition("two"), 10*time.Second) }()
		pass(time.Second)
		if a, b := version("quiet"), version("new"); a != "one" || b != "two" {
			t.Errorf("one that is awake is of version %s, and a new one of %s", a, b)
		}
		fail("quiet")
		fail("new")
		must(t, r.Sleep(r.ctx, idOf(quiet)))
		if got := version("quiet"); got != "two" {
			t.Errorf("when it has slept it is of version %s", got)
		}
		pass(20 * time.Second) // it is in a turn still
		waiting := make(chan string, 1)
		go func() { waiting <- version("busy") }()
		pass(time.Second)
		if len(replaced)+len(waiting) > 0 {
			t.Error("a turn of the old version runs")
		}
		close(let)
		if got := <-working; got != "one" {
			t.Errorf("the turn that had begun returned %s", got)
		}
		if got := <-waiting; got != "two" {
			t.Errorf("a call that waited got %s", got)
		}
		must(t, <-replaced)
		_, err := invoke[string](r.ctx, r.Host, busy, "only one", nil)
		wantErr(t, err, ErrNoAction)
		if failed.of["one"] != 2 || failed.of["two"] != 1 {
			t.Errorf("failures by version: %v", failed.of)
		}
	}, edition("one", only))
}

// TestReplaceHeld: what keeps an actor awake doesn't keep its version, and a Replace whose context ends has replaced the type.
func TestReplaceHeld(t *testing.T) {
	one := edition("one")
	var release func()
	one.Wake = func(c *Context) (err error) { release, err = KeepAwake(c); return err }
	bubble(t, Options{IdleTimeout: time.Minute}, func(r *rig) {
		got, err := invoke[string](r.ctx, r.Host, lobby, "version", nil)
		if must(t, err); got != "one" {
			t.Fatal(got)
		}
		brief, cancel := context.WithTimeout(r.ctx, time.Second)
		wantErr(t, replace(brief, r.Host, edition("two"), time.Hour), context.DeadlineExceeded)
		cancel()
		if got, err := invoke[string](r.ctx, r.Host, lobby, "version", nil); got != "one" || err != nil {
			t.Errorf("got %s, %v", got, err)
		}
		if got, err := invoke[string](r.ctx, r.Host, Address{"thing", "new"}, "version", nil); got != "two" || err != nil {
			t.Errorf("a new one: %s, %v", got, err)
		}
		must(t, replace(r.ctx, r.Host, edition("three"), time.Second))
		for _, a := range []Address{lobby, {"thing", "new"}} {
			if got, err := invoke[string](r.ctx, r.Host, a, "version", nil); got != "three" || err != nil {
				t.Errorf("%s: got %s, %v", a, got, err)
			}
		}
		release()
		wantErr(t, replace(r.ctx, r.Host, &Type{Name: "none"}, 0), ErrTypes)
		limited := edition("four")
		limited.Limits = []*Limit{{Name: "few", Concurrency: 1}}
		wantErr(t, replace(r.ctx, r.Host, limited, 0), ErrTypes)
	}, one)
}

// TestReplaceVisited: an actor that is visited while it sleeps doesn't keep its version.
func TestReplaceVisited(t *testing.T) {
	bubble(t, Options{IdleTimeout: time.Minute}, func(r *rig) {
		_, err := invoke[string](r.ctx, r.Host, lobby, "version", nil)
		must(t, err)
		must(t, r.Sleep(r.ctx, idOf(lobby)))
		entered, let := make(chan struct{}), make(chan struct{})
		visited, replaced := make(chan error, 1), make(chan error, 1)
		go func() {
			visited <- r.Visit(r.ctx, idOf(lobby), func(context.Context, *greenroom.Actor) error { close(entered); <-let; return nil })
		}()
		<-entered
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		go func() { replaced <- replace(ctx, r.Host, edition("two"), time.Second) }()
		pass(2 * time.Second)
		close(let)
		must(t, <-visited)
		pass(time.Second)
		if len(replaced) == 0 {
			cancel()
			t.Error("it waits for an actor that has left memory")
		}
		if err := <-replaced; ctx.Err() == nil {
			must(t, err)
		}
	}, edition("one"))
}

// TestReplaceKeeps: an actor that is awake is called with what its version has.
func TestReplaceKeeps(t *testing.T) {
	only := NewAction("only one", func(*Context, struct{}) (string, error) { return "one", nil })
	bubble(t, Options{IdleTimeout: time.Minute}, func(r *rig) {
		replaced := make(chan error, 1)
		for i, want := range []error{nil, ErrNoAction} {
			_, err := invoke[string](r.ctx, r.Host, lobby, "only one", nil)
			if !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			if i > 0 {
				break
			}
			go func() { replaced <- replace(r.ctx, r.Host, edition("two"), time.Second) }()
			synctest.Wait()
			_, err = invoke[string](r.ctx, r.Host, lobby, "only one", nil)
			must(t, err)
			_, err = invoke[string](r.ctx, r.Host, Address{"thing", "new"}, "only one", nil)
			wantErr(t, err, ErrNoAction)
			must(t, <-replaced)
		}
	}, edition("one", only))
}

// TestReplaceSteps: a step of a workflow, and work for a message, end when the time is over for which versions are kept, and are done again by the new one.
func TestReplaceSteps(t *testing.T) {
	begun, done := make(chan string, 10), make(chan string, 10)
	with := func(version string) *Type {
		k := edition(version, NewCommand("start", func(c *Context, _ struct{}) error {
			_, err := c.Enqueue(queue.Send{Name: "work", Body: 1})
			return errors.Join(err, c.StartWorkflow(1))
		}))
		do := func(ctx context.Context, what string) error {
			if begun <- what + version; version == "one" {
				<-ctx.Done()
				return ctx.Err()
			}
			done <- what + version
			return nil
		}
		k.Workflow = NewWorkflow(func(c *workflow.Context, _ int) (int, error) {
			return workflow.Step(c, "step", func(ctx context.Context) (int, error) { return 1, do(ctx, "step ") })
		}, nil)
		k.Work = &Work{Names: []string{"work"}, Do: func(ctx context.Context, _ *queue.Message) (func(*Context) error, error) {
			return nil, do(ctx, "work ")
		}}
		return k
	}
	bubble(t, Options{IdleTimeout: time.Minute}, func(r *rig) {
		_, err := invoke[struct{}](r.ctx, r.Host, lobby, "start", nil)
		must(t, err)
		<-begun
		<-begun
		ctx, cancel := context.WithTimeout(r.ctx, 2*time.Second) // less than a step may take
		defer cancel()
		must(t, replace(ctx, r.Host, with("two"), time.Second))
		pass(time.Minute) // no call wakes it
		got := []string{}
		for len(done) > 0 {
			got = append(got, <-done)
		}
		if slices.Sort(got); !slices.Equal(got, []string{"step two", "work two"}) {
			t.Errorf("done are %q", got)
		}
	}, with("one"))
}
