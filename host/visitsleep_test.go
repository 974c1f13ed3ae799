package host_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/workflow"
)

var must = testkit.Must

// A record is what an actor's code has done, in order.
type record struct {
	mu    sync.Mutex
	lines []string
}

func (l *record) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

// want compares the lines since the last call.
func (l *record) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.lines, want) {
		t.Errorf("got %q, want %q", l.lines, want)
	}
	l.lines = nil
}

// A line is a client's transport. It keeps why it was closed.
type line struct{ closed chan string }

func newLine() *line { return &line{make(chan string, 1)} }

func (*line) Send(host.Event)       {}
func (l *line) Close(reason string) { l.closed <- reason }

var (
	cell   = host.Address{Type: "cell", Key: "a"}
	cellID = actorstore.IDFromName(cell.String())
)

// A cellar is a host of cells, whose actors keep a log. What waits for go on goes on when that is closed.
type cellar struct {
	*host.Host
	log record
	on  chan struct{}
}

// work is an action that waits; ring is one that is due after a minute; start starts the workflow, whose step waits.
func (c *cellar) kind() *host.Type {
	note := func(what string) func(*host.Context) error {
		return func(*host.Context) error { c.log.add(what); return nil }
	}
	return &host.Type{
		Name: "cell", Wake: note("wake"), Sleep: note("sleep"),
		Actions: []host.AnyAction{
			host.NewCommand("make", func(*host.Context, string) error { return nil }),
			host.NewCommand("work", func(*host.Context, string) error { <-c.on; c.log.add("work"); return nil }),
			host.NewCommand("ring", func(*host.Context, string) error { c.log.add("ring"); return nil }),
			host.NewCommand("alarm", func(x *host.Context, _ string) error { _, err := x.After(time.Minute, "ring", ""); return err }),
			host.NewCommand("start", func(x *host.Context, _ string) error { return x.StartWorkflow("") }),
			host.NewCommand("self", func(x *host.Context, _ string) error { return c.Sleep(x, cellID) }),
		},
		Disconnect: func(_ *host.Context, n *host.Conn, reason string) error {
			c.log.add("disconnect " + reason)
			return nil
		},
		Workflow: host.NewWorkflow(func(w *workflow.Context, _ string) (string, error) {
			return "", workflow.Do(w, "step", func(context.Context) error { <-c.on; return nil })
		}, nil),
	}
}

// inCellar runs fn with a host whose cell a is awake, in a bubble with a clock of its own.
func inCellar(t *testing.T, fn func(t *testing.T, c *cellar)) {
	synctest.Test(t, func(t *testing.T) {
		c := &cellar{on: make(chan struct{})}
		var err error
		c.Host, err = host.Open(t.Context(), memkv.New(), []*host.Type{c.kind()}, &host.Options{
			IdleTimeout: time.Hour, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		must(t, err)
		c.call(t, "make")
		c.log.want(t, "wake")
		fn(t, c)
		must(t, c.Close(t.Context()))
	})
}

// call calls an action of the cell a.
func (c *cellar) call(t *testing.T, action string) {
	t.Helper()
	must(t, c.try(t, action))
}

func (c *cellar) try(t *testing.T, action string) error {
	args, err := host.Encode("")
	must(t, err)
	_, err = c.Do(t.Context(), &host.Call{Actor: cell, Action: action, Args: args})
	return err
}

// within is Sleep with a bound.
func (c *cellar) within(t *testing.T, d time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return c.Sleep(ctx, cellID)
}

// pass lets a time pass in a bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (c *cellar) awake(t *testing.T, want int) {
	t.Helper()
	if s := c.Stats(); s.Awake != want {
		t.Errorf("%d actors are awake, want %d", s.Awake, want)
	}
}

// TestWakeAndSleep: an actor sleeps when it is told to, is woken by what is due, and by Wake. Both do nothing if there is nothing to do.
func TestWakeAndSleep(t *testing.T) {
	inCellar(t, func(t *testing.T, c *cellar) {
		c.call(t, "alarm")
		for range 2 {
			must(t, c.Sleep(t.Context(), cellID))
			c.awake(t, 0)
		}
		c.log.want(t, "sleep")
		for range 2 {
			must(t, c.Wake(t.Context(), cellID))
			c.awake(t, 1)
		}
		c.log.want(t, "wake")
		must(t, c.Sleep(t.Context(), cellID))
		pass(2 * time.Minute)
		c.log.want(t, "sleep", "wake", "ring")
		// It stays awake for as long as after any call.
		must(t, c.Sleep(t.Context(), cellID))
		must(t, c.Wake(t.Context(), cellID))
		pass(59 * time.Minute)
		c.awake(t, 1)
		pass(2 * time.Minute)
		c.awake(t, 0)
	})
}

// TestSleepWaitsForTurns: an actor that takes a turn sleeps behind it, or its caller is told of the turn when that has waited for long enough,
// and the actor stays awake then.
func TestSleepWaitsForTurns(t *testing.T) {
	inCellar(t, func(t *testing.T, c *cellar) {
		var calls sync.WaitGroup
		calls.Go(func() { c.call(t, "work") })
		synctest.Wait()
		var kept *host.AwakeError
		err := c.within(t, time.Second)
		if !errors.As(err, &kept) || kept.Turns != 1 || kept.Steps || kept.Connections != 0 {
			t.Errorf("%v", err)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, greenroom.ErrInUse) {
			t.Errorf("%v isn't of its kinds", err)
		}
		slept := make(chan error, 2)
		for range cap(slept) {
			go func() { slept <- c.Sleep(t.Context(), cellID) }()
		}
		pass(10 * time.Second)
		if len(slept) > 0 {
			t.Error("it doesn't wait for the turn")
		}
		close(c.on)
		for range cap(slept) {
			must(t, <-slept)
		}
		calls.Wait()
		c.log.want(t, "work", "sleep")
		c.awake(t, 0)
	})
}

// TestSleepGivenUp: when the caller of Sleep has gone the actor stays awake after its turn.
func TestSleepGivenUp(t *testing.T) {
	inCellar(t, func(t *testing.T, c *cellar) {
		var calls sync.WaitGroup
		calls.Go(func() { c.call(t, "work") })
		synctest.Wait()
		if err := c.within(t, time.Second); err == nil {
			t.Error("it sleeps in a turn")
		}
		close(c.on)
		calls.Wait()
		c.log.want(t, "work")
		c.awake(t, 1)
	})
}

// TestSleepHeld: a connection that doesn't hibernate keeps the actor awake, also one that comes while Sleep waits; one that hibernates
// doesn't.
func TestSleepHeld(t *testing.T) {
	inCellar(t, func(t *testing.T, c *cellar) {
		join := func(hibernate bool) (*line, host.Joined) {
			l := newLine()
			j, err := c.Join(t.Context(), &host.Join{Actor: cell, Transport: l, Hibernate: hibernate})
			must(t, err)
			return l, j
		}
		_, stays := join(true)
		must(t, c.Sleep(t.Context(), cellID))
		_, held := join(false)
		var kept *host.AwakeError
		if err := c.Sleep(t.Context(), cellID); !errors.As(err, &kept) || *kept != (host.AwakeError{Connections: 1}) {
			t.Errorf("%v", err)
		}
		c.awake(t, 1)
		must(t, c.Leave(t.Context(), cell, held.ID, "bye"))
		c.log.want(t, "sleep", "wake", "disconnect bye")

		var waiting sync.WaitGroup
		waiting.Go(func() { c.call(t, "work") })
		synctest.Wait()
		waiting.Go(func() {
			if err := c.Sleep(t.Context(), cellID); !errors.As(err, &kept) || kept.Connections != 1 {
				t.Errorf("%v", err)
			}
		})
		synctest.Wait()
		waiting.Go(func() { _, held = join(false) })
		synctest.Wait()
		close(c.on)
		waiting.Wait()
		must(t, c.Leave(t.Context(), cell, held.ID, "bye"))
		must(t, c.Leave(t.Context(), cell, stays.ID, "bye"))
		c.log.want(t, "work", "disconnect bye", "disconnect bye")
		must(t, c.Sleep(t.Context(), cellID))
	})
}

// TestSleepDuringStep: a step that runs keeps the actor awake, and Sleep says so.
func TestSleepDuringStep(t *testing.T) {
	inCellar(t, func(t *testing.T, c *cellar) {
		c.call(t, "start")
		pass(time.Second)
		var kept *host.AwakeError
		if err := c.within(t, time.Second); !errors.As(err, &kept) || !kept.Steps || kept.Turns != 0 {
			t.Errorf("%v: %+v", err, kept)
		}
		close(c.on)
		must(t, c.Sleep(t.Context(), cellID))
		c.awake(t, 0)
	})
}

// TestDisconnect: a connection ends as if its client had left, also one of an actor that sleeps.
func TestDisconnect(t *testing.T) {
	inCellar(t, func(t *testing.T, c *cellar) {
		for _, hibernate := range []bool{false, true} {
			l := newLine()
			j, err := c.Join(t.Context(), &host.Join{Actor: cell, Transport: l, Hibernate: hibernate})
			must(t, err)
			want := []string{"disconnect out"}
			if hibernate {
				must(t, c.Sleep(t.Context(), cellID))
				want = []string{"sleep", "wake", "disconnect out"}
			}
			must(t, c.Disconnect(t.Context(), cellID, j.ID, "out"))
			c.log.want(t, want...)
			if reason := <-l.closed; reason != "out" {
				t.Errorf("the client is told %q", reason)
			}
			if err := c.Disconnect(t.Context(), cellID, j.ID, "out"); !errors.Is(err, host.ErrNoConn) {
				t.Errorf("again: %v", err)
			}
		}
	})
}

// TestBedtimeRefused: what is asked of an actor that isn't there, that no type is for, or in a turn of its own, is refused.
func TestBedtimeRefused(t *testing.T) {
	inCellar(t, func(t *testing.T, c *cellar) {
		a, err := c.Store().Actor(t.Context(), "notes", nil)
		must(t, err)
		must(t, errors.Join(a.Update(t.Context(), func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), nil) }), a.Close()))
		verbs := map[string]func(id actorstore.ID) error{
			"wake":       func(id actorstore.ID) error { return c.Wake(t.Context(), id) },
			"sleep":      func(id actorstore.ID) error { return c.Sleep(t.Context(), id) },
			"disconnect": func(id actorstore.ID) error { return c.Disconnect(t.Context(), id, "x", "out") },
		}
		for name, verb := range verbs {
			if err := verb(actorstore.IDFromName("cell/nix")); !errors.Is(err, actorstore.ErrUnknownActor) {
				t.Errorf("%s of an actor that isn't there: %v", name, err)
			}
			if err := verb(actorstore.IDFromName("notes")); !errors.Is(err, host.ErrNoType) {
				t.Errorf("%s of an actor of no type: %v", name, err)
			}
		}
		if err := c.try(t, "self"); !errors.Is(err, greenroom.ErrNested) {
			t.Errorf("in a turn: %v", err)
		}
	})
}
