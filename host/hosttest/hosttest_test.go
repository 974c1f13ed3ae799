package hosttest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/hosttest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
	"github.com/greenroomdb/greenroom/workflow/workflowtest"
)

const week = 7 * 24 * time.Hour

var must = testkit.Must

// todo is a list in SQL, whose clients hear what is added, and which asks after a week what became of an item.
var todo = &host.Type{
	Name: "todo",
	Create: func(c *host.Context) error {
		_, err := c.Exec("create table item(text text unique, asked int not null default 0)")
		return err
	},
	Actions: []host.AnyAction{addItem, askItem, items},
	Connect: func(_ *host.Context, n *host.Conn) error {
		var name string
		if err := n.Parameters(&name); err != nil {
			return err
		}
		if name == "" {
			return &host.Error{Code: "bad_name", Message: "A client has a name."}
		}
		return n.Subscribe("added")
	},
}

var addItem = host.NewAction("add", func(c *host.Context, text string) (n int, err error) {
	if _, err := c.Exec("insert into item(text) values(?)", text); err != nil {
		return 0, &host.Error{Code: "twice", Message: "It is on the list.", Err: err}
	}
	if _, err := c.After(week, "ask", text); err != nil {
		return 0, err
	}
	if err := c.QueryRow("select count(*) from item").Scan(&n); err != nil {
		return 0, err
	}
	return n, c.Broadcast("added", text)
})

var askItem = host.NewCommand("ask", func(c *host.Context, text string) error {
	_, err := c.Exec("update item set asked = asked + 1 where text = ?", text)
	return errors.Join(err, c.Broadcast("asked", text))
})

var items = host.NewAction("items", func(c *host.Context, _ struct{}) (asked map[string]int, err error) {
	rows, err := c.Query("select text, asked from item")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	asked = map[string]int{}
	for rows.Next() {
		var text string
		var n int
		if err := rows.Scan(&text, &n); err != nil {
			return nil, err
		}
		asked[text] = n
	}
	return asked, rows.Err()
})

// TestCalls: by name and declared, with errors; what is stored stays over sleep, restart and crash.
func TestCalls(t *testing.T) {
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		ann := e.Actor("todo", "ann")
		again := []func(){func() {}, ann.Sleep, e.Restart, e.Crash}
		for i, text := range []string{"milk", "tea", "bread", "salt"} {
			again[i]()
			if n := hosttest.Call[int](ann, "add", text); n != i+1 {
				t.Errorf("%d items, want %d", n, i+1)
			}
		}
		if _, err := addItem.Call(t.Context(), e.Host, "ann", "tea"); host.Code(err) != "twice" {
			t.Errorf("got %v", err)
		}
		if _, err := ann.Do("remove", "tea"); !errors.Is(err, host.ErrNoAction) {
			t.Errorf("got %v", err)
		}
		ann.Sleep()
		ann.View(func(v *greenroom.View) error {
			var n int
			err := v.QueryRow("select count(*) from item").Scan(&n)
			if n != 4 {
				t.Errorf("%d rows", n)
			}
			return err
		})
		if s := e.Host.Stats(); s.Awake != 0 {
			t.Errorf("a look has woken the actor: %+v", s)
		}
	}, todo)
}

// TestAlarm: what is due in a week is done then, once, whatever happens before.
func TestAlarm(t *testing.T) {
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		ann, start := e.Actor("todo", "ann"), time.Now()
		for i, between := range []func(){func() {}, e.Restart, e.Crash} {
			hosttest.Call[int](ann, "add", string(rune('a'+i)))
			between()
		}
		e.Advance(week - time.Second)
		if got := hosttest.Call[map[string]int](ann, "items", nil); !reflect.DeepEqual(got, map[string]int{"a": 0, "b": 0, "c": 0}) {
			t.Errorf("before the time: %v", got)
		}
		e.Advance(time.Second)
		if took := time.Since(start); took != week {
			t.Errorf("it is %v later", took)
		}
		if got := hosttest.Call[map[string]int](ann, "items", nil); !reflect.DeepEqual(got, map[string]int{"a": 1, "b": 1, "c": 1}) {
			t.Errorf("at the time: %v", got)
		}
	}, todo)
}

// TestClient: events come in order, also those of an alarm that wakes the actor, and a client comes back after it was lost, a restart and a crash.
func TestClient(t *testing.T) {
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		ann := e.Actor("todo", "ann")
		if _, err := ann.Connect(""); host.Code(err) != "bad_name" {
			t.Errorf("got %v", err)
		}
		c, err := ann.Connect("phone")
		must(t, err)
		hears := func(want ...string) {
			t.Helper()
			for _, text := range want {
				if got := hosttest.Next[string](c, "added"); got != text {
					t.Errorf("heard %q, want %q", got, text)
				}
			}
		}
		add := func(text string) { t.Helper(); hosttest.Call[int](ann, "add", text) }
		add("milk")
		hosttest.Call[int](c, "add", "tea")
		if got := c.Waiting(); !slices.Equal(got, []string{"added", "added"}) {
			t.Errorf("got %q", got)
		}
		hears("milk", "tea")
		c.Subscribe("asked")
		ann.Sleep()
		e.Advance(week)
		hosttest.Next[string](c, "asked")
		hosttest.Next[string](c, "asked")
		for i, leave := range []func(){c.Lose, e.Restart, e.Crash} {
			leave()
			add(string(rune('a' + i)))
			if got := c.Waiting(); len(got) != 0 {
				t.Errorf("away, the client hears %q", got)
			}
			must(t, c.Rejoin())
			add(string(rune('A' + i)))
			hears(string(rune('A' + i)))
		}
		c.Close()
		if _, ended := c.Ended(); !ended {
			t.Error("the client has left, and isn't told")
		}
		if _, err := c.Do("items", nil); !errors.Is(err, host.ErrNoConn) {
			t.Errorf("got %v", err)
		}
		c, err = ann.Connect("phone")
		must(t, err)
		c.Lose()
		e.Advance(2 * host.DefaultAwayTimeout)
		if err := c.Rejoin(); !errors.Is(err, host.ErrNoConn) {
			t.Errorf("after the time to come back: %v", err)
		}
	}, todo)
}

// TestDeadLetter: a message whose handler fails twice is handed out a third time, or is a dead letter.
func TestDeadLetter(t *testing.T) {
	for most, dead := range map[int]int{2: 1, 3: 0} {
		attempts := 0
		worker := &host.Type{
			Name:  "worker",
			Queue: greenroom.QueueOptions{MaxReceive: most},
			Message: func(c *host.Context, m *greenroom.Message) error {
				if attempts++; attempts <= 2 {
					return errors.New("the printer is off")
				}
				return greenroom.SetState(c, "printed")
			},
			MessageNames: []string{"print"},
		}
		hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
			w := e.Actor("worker", "1")
			w.Send("print", "a page")
			e.Advance(time.Hour)
			if n := len(w.Messages("print.dlq")); n != dead || attempts != most || len(w.Messages("print")) != 0 {
				t.Errorf("%d dead letters after %d attempts, want %d after %d", n, attempts, dead, most)
			}
		}, worker)
	}
}

// A parcel goes to another actor, and back.
type parcel struct{ From, To string }

// TestLetters: two actors send each other letters, over sleep and crashes.
func TestLetters(t *testing.T) {
	post := &host.Type{
		Name: "post",
		Actions: []host.AnyAction{host.NewCommand("send", func(c *host.Context, to string) error {
			return c.Send(host.Address{Type: "post", Key: to}, queue.Send{Name: "parcel", Body: parcel{c.Address().Key, to}})
		})},
		MessageNames: []string{"parcel", "thanks"},
		Message: func(c *host.Context, m *greenroom.Message) error {
			err := greenroom.Mutate(c, func(got *[]string) error { *got = append(*got, m.Name); return nil })
			if err != nil || m.Name == "thanks" {
				return err
			}
			var p parcel
			if err := m.Decode(&p); err != nil {
				return err
			}
			return c.Send(host.Address{Type: "post", Key: p.From}, queue.Send{Name: "thanks"})
		},
	}
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		ann, bob := e.Actor("post", "ann"), e.Actor("post", "bob")
		for n := 1; n < 4; n++ {
			hosttest.Call[any](ann, "send", "bob")
			if n == 2 {
				e.Crash()
			}
			e.Advance(time.Hour)
			for a, name := range map[*hosttest.Actor]string{ann: "thanks", bob: "parcel"} {
				var got []string
				a.View(func(v *greenroom.View) (err error) { got, err = stateOf[[]string](v); return err })
				if !slices.Equal(got, slices.Repeat([]string{name}, n)) {
					t.Errorf("%s got %q", a.Address.Key, got)
				}
			}
		}
	}, post)
}

func stateOf[T any](v *greenroom.View) (state T, err error) {
	b, err := v.RawState()
	if err != nil {
		return state, err
	}
	err = host.Raw(b).Decode(&state)
	return state, err
}

// trial is a workflow with steps that are turns, use a turn, and do neither. Steps are counted as they begin.
func trial(begun map[string]int, opts *greenroom.WorkflowOptions) *host.Type {
	return &host.Type{
		Name: "trial",
		Workflow: host.NewWorkflow(func(c *workflow.Context, name string) (string, error) {
			days, err := host.StepTurn(c, "begin", func(c *host.Context) (int, error) {
				begun["begin"]++
				return 7, greenroom.SetState(c, "on trial")
			})
			if err != nil {
				return "", err
			}
			c.Sleep("trial", time.Duration(days)*24*time.Hour)
			err = workflow.Do(c, "remind", func(ctx context.Context) error {
				begun["remind"]++
				return host.Turn(ctx, func(c *host.Context) error {
					return errors.Join(greenroom.SetState(c, "reminded"), c.Broadcast("reminded", name))
				})
			})
			return "thanks, " + name, err
		}, opts),
	}
}

// TestWorkflowTurn: a workflow with turns of its host skips a week, and survives a crash.
func TestWorkflowTurn(t *testing.T) {
	begun := map[string]int{}
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		ann := e.Actor("trial", "ann")
		ann.StartWorkflow("Ann")
		e.Advance(week / 2)
		e.Crash()
		e.Advance(week)
		if got := hosttest.Result[string](ann); got != "thanks, Ann" || begun["begin"] != 1 || begun["remind"] != 1 {
			t.Errorf("got %q after %v", got, begun)
		}
		ann.View(func(v *greenroom.View) error {
			state, err := stateOf[string](v)
			if state != "reminded" {
				t.Errorf("the state is %q", state)
			}
			return err
		})
	}, trial(begun, nil))
}

// TestSteps: steps of a workflow in a host fail as those of workflowtest do.
func TestSteps(t *testing.T) {
	var steps workflowtest.Steps
	begun, step := map[string]int{}, steps.Step("remind").Fail(errors.New("no answer"), 2)
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		ann := e.Actor("trial", "ann")
		ann.StartWorkflow("Ann")
		e.Advance(week + time.Hour)
		if got := hosttest.Result[string](ann); got != "thanks, Ann" || step.Attempts() != 3 || begun["remind"] != 1 {
			t.Errorf("got %q after %d attempts, of which %d worked", got, step.Attempts(), begun["remind"])
		}
	}, trial(begun, &greenroom.WorkflowOptions{Around: steps.Around}))
}

// TestCrashAfter crashes the host of a workflow after each commit: it goes on, and ends as it does undisturbed.
func TestCrashAfter(t *testing.T) {
	most := 0
	for n, done := 0, false; !done; n++ {
		begun := map[string]int{}
		hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
			ann := e.Actor("trial", "ann")
			e.CrashAfter(n)
			_, err := e.Host.StartWorkflow(t.Context(), ann.Address, "Ann")
			started := err == nil
			e.Advance(week + time.Hour)
			done = started && begun["remind"] > 0
			e.Crash()
			if !started {
				ann.StartWorkflow("Ann")
			}
			e.Advance(week + time.Hour)
			if got := hosttest.Result[string](ann); got != "thanks, Ann" {
				t.Errorf("after %d commits: %q", n, got)
			}
			most = max(most, begun["begin"]+begun["remind"])
			done = done && begun["remind"] == 1
		}, trial(begun, nil))
		if n > 100 {
			t.Fatal("it doesn't end")
		}
	}
	if most < 3 {
		t.Error("no crash came between a step's work and its commit")
	}
}

// TestCrashLoses: a turn that is applied and not on stable storage is lost by a crash; nothing of it had left.
func TestCrashLoses(t *testing.T) {
	slept := 0
	kind := *todo
	kind.Sleep = func(*host.Context) error { slept++; return nil }
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		ann := e.Actor("todo", "ann")
		hosttest.Call[int](ann, "add", "milk")
		c, err := ann.Connect("phone")
		must(t, err)
		e.FailSyncs()
		if _, err := ann.Do("add", "tea"); !errors.Is(err, host.ErrUnknownOutcome) {
			t.Errorf("got %v", err)
		}
		e.Crash()
		if got := c.Waiting(); len(got) != 0 {
			t.Errorf("the client has heard %q", got)
		}
		if got := hosttest.Call[map[string]int](ann, "items", nil); len(got) != 1 {
			t.Errorf("the actor has %v", got)
		}
		if slept != 0 {
			t.Error("the crash has put the actor to sleep")
		}
		e.Restart()
		if slept != 1 {
			t.Errorf("put to sleep %d times by a restart", slept)
		}
	}, &kind)
}

// TestFail: what callers are told of a commit that fails, and what is stored then.
func TestFail(t *testing.T) {
	for f, want := range map[hosttest.Failure]struct {
		err   error
		items int
	}{
		hosttest.NotApplied: {kv.ErrNotApplied, 2}, hosttest.DiskFull: {greenroom.ErrNoSpace, 2},
		hosttest.Unanswered: {host.ErrUnknownOutcome, 2}, hosttest.UnansweredApplied: {host.ErrUnknownOutcome, 3},
	} {
		hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
			ann, bob := e.Actor("todo", "ann"), e.Actor("todo", "bob")
			hosttest.Call[int](ann, "add", "milk")
			fault := ann.Fail(f, 1)
			if _, err := ann.Do("add", "tea"); !errors.Is(err, want.err) {
				t.Errorf("%d: got %v, want %v", f, err, want.err)
			}
			hosttest.Call[int](bob, "add", "tea")
			if n := hosttest.Call[int](ann, "add", "bread"); n != want.items || fault.Hits() != 1 {
				t.Errorf("%d: %d items after %d failures, want %d", f, n, fault.Hits(), want.items)
			}
			all := ann.Fail(f, -1)
			for range 3 {
				if _, err := ann.Do("add", "salt"); err == nil {
					t.Errorf("%d: a commit is taken", f)
				}
			}
			if all.Remove(); f != hosttest.UnansweredApplied {
				hosttest.Call[int](ann, "add", "salt")
			}
			e.Actor("todo", "carl").Fail(f, -1) // the host is closed all the same
		}, todo)
	}
}

// TestVersions: another version of the types holds from a restart on, and calls are made in the name of callers.
func TestVersions(t *testing.T) {
	who := func(greeting string) *host.Type {
		return &host.Type{Name: "who", Actions: []host.AnyAction{host.NewAction("am I", func(c *host.Context, _ struct{}) (string, error) {
			return greeting + c.Caller().ID, nil
		})}}
	}
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		ann := e.Actor("who", "1").As(&host.Caller{ID: "ann"})
		first := hosttest.Call[string](ann, "am I", nil)
		e.Types = []*host.Type{who("hello ")}
		e.Restart()
		if second := hosttest.Call[string](ann, "am I", nil); first != "ann" || second != "hello ann" {
			t.Errorf("got %q, %q", first, second)
		}
	}, who(""))
}

// TestCrashMeanwhile: what runs at a crash is cancelled, and its work doesn't land.
func TestCrashMeanwhile(t *testing.T) {
	running := make(chan bool)
	kind := &host.Type{Name: "slow", Actions: []host.AnyAction{
		host.NewCommand("wait", func(c *host.Context, _ struct{}) error {
			running <- true
			<-c.Done()
			return greenroom.SetState(c, "late")
		}),
		host.NewAction("state", func(c *host.Context, _ struct{}) (string, error) { return greenroom.State[string](c) }),
	}}
	hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
		a, start := e.Actor("slow", "1"), time.Now()
		failed := make(chan error, 1)
		go func() {
			_, err := a.Do("wait", nil)
			failed <- err
		}()
		<-running
		e.Crash()
		if err := <-failed; err == nil || time.Since(start) != 0 {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		if got := hosttest.Call[string](a, "state", nil); got != "" {
			t.Errorf("the state is %q", got)
		}
		e.CrashAfter(1) // and the test ends so
		_, err := a.Do("state", nil)
		must(t, err)
	}, kind)
}

// wrong are tests that fail, and what they say.
var wrong = map[string]struct {
	what func(e *hosttest.Env, ann *hosttest.Actor)
	says string
}{
	"action":   {func(_ *hosttest.Env, ann *hosttest.Actor) { hosttest.Call[any](ann, "remove", nil) }, `todo/ann: remove: host: no such action: "remove"`},
	"result":   {func(_ *hosttest.Env, ann *hosttest.Actor) { hosttest.Call[string](ann, "add", "tea") }, "todo/ann: result of add: "},
	"sleep":    {func(_ *hosttest.Env, ann *hosttest.Actor) { ann.Sleep() }, "todo/ann: sleep: "},
	"view":     {func(_ *hosttest.Env, ann *hosttest.Actor) { ann.Messages("") }, "todo/ann: view: "},
	"workflow": {func(_ *hosttest.Env, ann *hosttest.Actor) { ann.StartWorkflow(1) }, "todo/ann: start the workflow: host: the type has no workflow"},
	"waits": {func(e *hosttest.Env, _ *hosttest.Actor) {
		e.Actor("trial", "ann").StartWorkflow("Ann")
		e.Advance(time.Hour)
		hosttest.Result[string](e.Actor("trial", "ann"))
	}, "trial/ann: view: the workflow is sleeping, and waits for the time "},
	"no event": {func(_ *hosttest.Env, ann *hosttest.Actor) { hosttest.Next[string](connected(ann), "added") }, `todo/ann: client: the next event "added": it hasn't come; the client has taken 0`},
	"other event": {func(_ *hosttest.Env, ann *hosttest.Actor) {
		c := connected(ann)
		hosttest.Call[int](ann, "add", "tea")
		hosttest.Next[string](c, "asked")
	}, `the next event "asked": it is "added"`},
	"away": {func(e *hosttest.Env, ann *hosttest.Actor) {
		c := connected(ann)
		e.Restart()
		hosttest.Next[string](c, "added")
	}, "the client is away since it has taken 0 events: it must Rejoin"},
	"over": {func(_ *hosttest.Env, ann *hosttest.Actor) {
		c := connected(ann)
		c.Close()
		hosttest.Next[string](c, "added")
	}, "the connection has ended after 0 events: the client has left"},
}

func connected(a *hosttest.Actor) *hosttest.Client {
	c, err := a.Connect("phone")
	if err != nil {
		panic(err)
	}
	return c
}

// wrongEnv tells a child process to fail.
const wrongEnv = "GREENROOM_HOSTTEST_WRONG"

// TestChild fails, in a child process.
func TestChild(t *testing.T) {
	if os.Getenv(wrongEnv) == "" {
		t.Skip("it is for TestMessages to run")
	}
	for name, tt := range wrong {
		t.Run(name, func(t *testing.T) {
			hosttest.Run(t, func(_ *testing.T, e *hosttest.Env) { tt.what(e, e.Actor("todo", "ann")) }, todo, trial(map[string]int{}, nil))
		})
	}
}

// TestMessages: a test whose actors don't do what it needs ends, and says why.
func TestMessages(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), wrongEnv+"=1")
	text, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(string(text), "    hosttest.go:") {
		t.Error("it names its own lines")
	}
	for name, tt := range wrong {
		if !strings.Contains(string(text), tt.says) {
			t.Errorf("%s: it doesn't say %q", name, tt.says)
		}
	}
	if t.Failed() {
		t.Logf("%s", text)
	}
}
