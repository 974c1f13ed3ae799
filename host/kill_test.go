package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/queue"
)

// killEnv tells a child process which store to work on.
const killEnv = "GREENROOM_HOST_KILL_STORE"

// killActors is how many actors the child works on, each with several callers.
const killActors, killCallers = 4, 3

// killed is an actor that counts in everything it has, so that it can be seen whether
// each turn has landed whole.
func killed() *Type {
	return &Type{Name: "thing", Actions: []AnyAction{
		NewAction("count", func(c *Context, _ struct{}) (n int, err error) {
			err = greenroom.Mutate(c, func(v *int) error { *v++; n = *v; return nil })
			if err != nil {
				return 0, err
			}
			tx, err := c.SQL()
			if err != nil {
				return 0, err
			}
			if _, err := tx.ExecContext(c, "create table if not exists t(x); insert into t values(1)"); err != nil {
				return 0, err
			}
			if err := c.Put(strconv.AppendInt(nil, int64(n), 10), nil); err != nil {
				return 0, err
			}
			if _, err := c.Enqueue(queue.Send{Name: "n"}); err != nil {
				return 0, err
			}
			if err := c.Send(Address{"ear", c.Address().Key}, queue.Send{Name: "n", Body: n}); err != nil {
				return 0, err
			}
			_, err = c.At(c.Now().Add(100*time.Hour), "count")
			return n, err
		}),
		NewAction("counted", func(c *Context, _ struct{}) (n [5]int, err error) {
			if n[0], err = greenroom.State[int](c); err != nil || n[0] == 0 {
				return n, err
			}
			tx, err := c.SQL()
			if err != nil {
				return n, err
			}
			if err := tx.QueryRowContext(c, "select count(*) from t").Scan(&n[1]); err != nil {
				return n, err
			}
			for _, err := range c.List(actorstore.ListOptions{KeysOnly: true}) {
				if err != nil {
					return n, err
				}
				n[2]++
			}
			n[3] = c.life.queue.Len()
			events, err := c.Events()
			n[4] = len(events)
			return n, err
		}),
	}, Queue: greenroom.QueueOptions{MaxMessages: -1}}
}

// TestKillChild is the process that is killed. It says what was acknowledged.
func TestKillChild(t *testing.T) {
	dir := os.Getenv(killEnv)
	if dir == "" {
		t.Skip("it is for TestKill to run")
	}
	engine, err := pebblekv.Open(dir, nil)
	must(t, err)
	h, err := Open(t.Context(), engine, []*Type{killed(), listener()}, &Options{MaxAwake: killActors - 1, IdleTimeout: time.Millisecond, Logger: quiet})
	must(t, err)
	var out sync.Mutex
	say := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Fprintf(os.Stdout, format+"\n", args...)
	}
	for i := range killActors * killCallers {
		go func() {
			for ; ; i++ {
				a := Address{"thing", fmt.Sprint(i % killActors)}
				n, err := invoke[int](context.Background(), h, a, "count", nil)
				if err != nil {
					say("failed %v", err)
					return
				}
				say("acked %d %d", i%killActors, n)
				if n == 1 {
					if _, err := h.Join(context.Background(), &Join{Actor: a, Transport: &sink{}, Hibernate: true}); err != nil {
						say("failed %v", err)
						return
					}
					say("joined %d 1", i%killActors)
				}
			}
		}()
	}
	select {} // until it is killed
}

// TestKill kills a host under load, again and again: what it has acknowledged is there,
// and of what it hasn't nothing is half there.
func TestKill(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts processes")
	}
	dir := t.TempDir()
	var acked, joined [killActors]int
	for round := range 3 {
		killOnce(t, "TestKillChild", dir, 150, &acked, &joined)
		engine, err := pebblekv.Open(dir, nil)
		must(t, err)
		h, err := Open(t.Context(), engine, []*Type{killed(), listener()}, &Options{Logger: quiet})
		must(t, err)
		if n := h.Stats().Alarms; n > 2*killActors {
			t.Errorf("%d alarms", n)
		}
		for i := range killActors {
			a := Address{"thing", fmt.Sprint(i)}
			n, err := invoke[[5]int](t.Context(), h, a, "counted", nil)
			must(t, err)
			if n[0] < acked[i] || n[1] != n[0] || n[2] != n[0] || n[3] != n[0] || n[4] != n[0] {
				t.Errorf("round %d, actor %d: acknowledged %d, there are %d", round, i, acked[i], n)
			}
			acked[i] = n[0]
			wantNumbers(t, hearAll(t, h, i, n[0]), n[0])
			conns := 0
			must(t, h.turn(t.Context(), a, nil, newTurn("test", func(c *Context) error {
				conns = len(c.Connections())
				return nil
			})))
			if conns < joined[i] {
				t.Errorf("round %d, actor %d: %d connections, %d were acknowledged", round, i, conns, joined[i])
			}
		}
		must(t, h.Close(t.Context()))
		want := 0 // every actor that counted also scheduled something
		for _, n := range acked {
			want += min(n, 1)
		}
		rows := 0
		store, err := actorstore.Open(t.Context(), engine, &actorstore.Options{ReadOnly: true})
		must(t, err)
		for _, err := range store.Wakes(t.Context(), time.Now().Add(100*365*24*time.Hour), false) {
			must(t, err)
			rows++
		}
		if rows != want || want < 2 {
			t.Errorf("round %d: %d actors are to be woken, want %d", round, rows, want)
		}
		for f, err := range store.Check(t.Context()) {
			t.Errorf("round %d: %v, %v", round, f, err)
		}
		must(t, engine.Close())
	}
}

// hearAll returns what an ear has heard, when it is as much as it is to be.
func hearAll(t *testing.T, h *Host, i, n int) (heard []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(time.Second))
	defer cancel()
	for n > 0 && len(heard) < n {
		var err error
		heard, err = invoke[[]string](ctx, h, Address{"ear", fmt.Sprint(i)}, "heard", nil)
		must(t, err)
	}
	return heard
}

// killOnce runs the child, a test, until it has acknowledged n turns, and kills it.
func killOnce(t *testing.T, child, dir string, n int, acked, joined *[killActors]int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+child+"$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), killEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for seen := 0; lines.Scan(); seen++ {
		var what string
		var actor, count int
		if _, err := fmt.Sscanf(lines.Text(), "%s %d %d", &what, &actor, &count); err != nil {
			t.Errorf("the child says %q", lines.Text())
			continue
		}
		switch what {
		case "acked":
			acked[actor] = max(acked[actor], count)
		case "joined":
			joined[actor]++
		}
		if seen == n {
			must(t, cmd.Process.Kill())
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Fatalf("the child ended by itself: %v", err)
	}
}
