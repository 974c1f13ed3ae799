package wasm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// other is another actor.
var other = host.Address{Type: "thing", Key: "other"}

// TestState counts in actors that sleep in between.
func TestState(t *testing.T) {
	withGo(t, func(r *rig) {
		for n, want := range []int{0, 1, 3, 6} {
			if got := call1[int](r, lobby, "add", n); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		}
		if got := call1[int](r, other, "add", 1); got != 1 {
			t.Errorf("another actor has %d", got)
		}
		r.close()
		r.open()
		if got := call1[int](r, lobby, "add", 1); got != 7 {
			t.Errorf("after a restart: %d", got)
		}
		if got := call1[string](r, lobby, "anything", 3); got != "other anything 03" {
			t.Errorf("another action: %q", got)
		}
		if got := r.code(lobby, "add", "no number"); got != "bad_arguments" {
			t.Errorf("wrong arguments: %q", got)
		}
	})
}

// TestIdempotencyKey: an action of a module, also one that it doesn't name, lands once with a key, also over a restart.
func TestIdempotencyKey(t *testing.T) {
	withGo(t, func(r *rig) {
		for i, want := range []bool{false, true, true} {
			for action, result := range map[string]string{"add": "5", "anything": `"other anything 05"`} {
				var replayed bool
				got, err := r.Do(r.ctx, &host.Call{Actor: lobby, Action: action, Args: host.Raw{5}, IdempotencyKey: action, Replayed: &replayed})
				must(t, err)
				var out any
				must(t, got.Decode(&out))
				if text := fmt.Sprintf("%#v", out); replayed != want || text != result {
					t.Errorf("call %d of %s: %s, replayed %t", i, action, text, replayed)
				}
			}
			if i == 1 {
				r.close()
				r.open()
			}
		}
		if got := call1[int](r, lobby, "add", 0); got != 5 {
			t.Errorf("the total is %d", got)
		}
	})
}

// TestTime: a time goes to a guest, into its state and back with its nanoseconds and its offset.
func TestTime(t *testing.T) {
	withGo(t, func(r *rig) {
		for _, want := range []string{"2025-06-01T12:00:00.123456789+05:45", "1969-12-31T23:59:59.999999999-08:00", "2025-06-01T12:00:00Z"} {
			at, err := time.Parse(time.RFC3339Nano, want)
			must(t, err)
			if got := call1[time.Time](r, lobby, "when", at).Format(time.RFC3339Nano); got != want {
				t.Errorf("%s comes back as %s", want, got)
			}
		}
	})
}

// TestCreateRefuses: a module whose create fails hears nothing of it the next time: the failed
// create leaves no actor and no input.
func TestCreateRefuses(t *testing.T) {
	withGo(t, func(r *rig) {
		err := r.Create(r.ctx, lobby, "refused")
		if got := host.Code(err); got != "bad_input" {
			t.Errorf("the code is %q, of %v", got, err)
		}
		for info, err := range r.Store().Actors(r.ctx, nil) {
			t.Errorf("there is the actor %+v, %v", info, err)
		}
		must(t, r.Create(r.ctx, lobby, "taken"))
		if got := call1[int](r, lobby, "add", 1); got != 1 {
			t.Errorf("got %d", got)
		}
	})
}

// TestModuleMustCreate: the program says that a module's actors are made by Host.Create
// alone, and a module's message makes none.
func TestModuleMustCreate(t *testing.T) {
	kind := thing(t).Type()
	kind.MustCreate = true
	r := newRigOf(t, kind, host.Options{})
	if got := r.code(lobby, "add", 1); got != "no_such_actor" {
		t.Errorf("the code is %q", got)
	}
	must(t, r.Create(r.ctx, lobby, nil))
	if got := call1[int](r, lobby, "add", 1); got != 1 {
		t.Errorf("got %d", got)
	}
	r.close()
}

// TestFailures ends turns in all ways that a program in Go can, and looks that nothing of
// them is there and the next turn works.
func TestFailures(t *testing.T) {
	for _, test := range []struct {
		action string
		in     any
		code   string
		is     error
		fresh  bool // the memory is a new one
	}{
		{"fail", "overdrawn", "overdrawn", nil, false},
		{"fail", "", "internal", ErrModuleFailed, false},
		{"panic", nil, "actor_failed", ErrTrap, true},
		{"exit", nil, "actor_failed", ErrTrap, true},
		{"grow", nil, "actor_failed", ErrTrap, true},
		{"memory", "refused", "key_too_long", nil, true},
	} {
		t.Run(test.action, func(t *testing.T) {
			withGo(t, func(r *rig) {
				call1[int](r, lobby, "add", 5)
				call1[int](r, lobby, "memory", "")
				_, err := invoke[any](r.ctx, r.Host, lobby, test.action, test.in)
				if got := host.Code(err); got != test.code || strings.Contains(host.Message(err), "secret") {
					t.Errorf("got %q, %q, of %v", got, host.Message(err), err)
				}
				if test.is != nil && !errors.Is(err, test.is) {
					t.Errorf("got %v, want %v", err, test.is)
				}
				if got := call1[int](r, lobby, "total", nil); got != 5 {
					t.Errorf("state is %d", got)
				}
				want := map[bool]int{false: 2, true: 1}[test.fresh]
				if got := call1[int](r, lobby, "memory", ""); got != want {
					t.Errorf("memory is %d, want %d", got, want)
				}
				if got := call1[int](r, lobby, "wakes", nil); got != 1 {
					t.Errorf("the instance was woken %d times", got)
				}
			})
		})
	}
}

// TestWorld looks what a module can see of the machine, and of time.
func TestWorld(t *testing.T) {
	withGo(t, func(r *rig) {
		if got := call1[string](r, lobby, "world", nil); got != "true true 0 0" {
			t.Errorf("the world is %q", got)
		}
		if got := call1[float64](r, lobby, "clock", nil); got != 0 {
			t.Errorf("%v seconds have passed", got)
		}
		must(t, r.Create(r.ctx, other, "input"))
		if got := call1[string](r, other, "self", nil); got != `thing other 30 "input"` {
			t.Errorf("self is %q", got)
		}
		if got := call1[string](r, lobby, "self", nil); got != `thing lobby 30 ""` {
			t.Errorf("self is %q", got)
		}
	})
}

func TestKeys(t *testing.T) {
	withGo(t, func(r *rig) {
		want := []string{"k000", "k002", "k005", "k006", "k006", "k005"}
		for range 2 { // of the turn's own, and of what is stored
			if got := call1[[]string](r, lobby, "keys", 7); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		for _, a := range []host.Address{lobby, other} {
			if got := call1[string](r, a, "put", [2]string{"a", a.Key}); got != "" {
				t.Errorf("%s has %q", a, got)
			}
		}
		if got := call1[string](r, lobby, "put", [2]string{"a", ""}); got != "lobby" {
			t.Errorf("got %q", got)
		}
	})
}

// TestLabel: an actor whose code is a module is found by the labels that it sets; one that can't be set is an error of the module's.
func TestLabel(t *testing.T) {
	withGo(t, func(r *rig) {
		call1[string](r, lobby, "label", [2]string{"customer", "42"})
		call1[string](r, other, "label", [2]string{"customer", "43"})
		if code := r.code(lobby, "label", [2]string{"", "x"}); code != "bad_label" {
			t.Errorf("got %q", code)
		}
		var names []string
		for info, err := range r.Store().Actors(r.ctx, &greenroom.ActorsOptions{Labels: map[string]string{"customer": "42"}}) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, info.Name)
		}
		if len(names) != 1 || names[0] != lobby.String() {
			t.Errorf("found %q", names)
		}
	})
}

// TestPages lists more than fits into one result.
func TestPages(t *testing.T) {
	withGo(t, func(r *rig) {
		const n, size = 30, 100_000
		for i := range n {
			call1[string](r, lobby, "put", [2]string{fmt.Sprintf("%03d", i), strings.Repeat("x", size)})
		}
		for _, reverse := range []bool{false, true} {
			if got := call1[int](r, lobby, "count", reverse); got != n*(size+3) {
				t.Errorf("reverse %v: %d bytes, want %d", reverse, got, n*(size+3))
			}
		}
	})
}

func TestSQL(t *testing.T) {
	withGo(t, func(r *rig) {
		if got := call1[int](r, lobby, "book", 100); got != 100 {
			t.Errorf("balance %d", got)
		}
		if got := r.code(lobby, "book", -500); got != "overdrawn" {
			t.Errorf("got %q", got)
		}
		if got := r.code(lobby, "book", 100); got != "sql" {
			t.Errorf("an amount twice: %q", got)
		}
		if got := call1[int](r, lobby, "book", -30); got != 70 {
			t.Errorf("balance %d", got)
		}
		const q = "select ? as i, ? as s, ? as f, ? as n, ? as b, ? as t union all select 1, '', 2.5, null, x'', 0"
		if got, want := call1[string](r, lobby, "query", q), "[i s f n b t] 2 7text1.5 true [1 2] 1 12.5 true [] 0"; got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// TestStatements tries statements that would leave the actor's database, or its turn.
func TestStatements(t *testing.T) {
	dir := t.TempDir()
	withGo(t, func(r *rig) {
		file := dir + "/x.db"
		for _, s := range []string{
			"ATTACH '" + file + "' AS x", " \n attach '" + file + "' as x", "-- \nATTACH '" + file + "' AS x",
			"/**/ATTACH '" + file + "' AS x", "\ufeffATTACH '" + file + "' AS x", "; ATTACH '" + file + "' AS x",
			"VACUUM INTO '" + file + "'", "COMMIT", "BEGIN", "ROLLBACK", "END", "SAVEPOINT a", "DETACH main", "", " ",
			"SELECT 1\x00; COMMIT", "EXPLAIN COMMIT; COMMIT",
		} {
			if got := call1[[]string](r, lobby, "sql", []string{s}); got[0] != "bad_query" {
				t.Errorf("%q: %q", s, got)
			}
		}
		for _, s := range []string{
			"SELECT 1; ATTACH '" + file + "' AS x", "SELECT 1; COMMIT; VACUUM INTO '" + file + "'",
			"SELECT zeroblob(2000000)", "CREATE nonsense",
		} {
			if got := r.code(lobby, "query", s); got != "sql" {
				t.Errorf("%q: %q", s, got)
			}
		}
		if got := call1[[]string](r, lobby, "sql", []string{"insert into book values(1, '')", "update book set note = 'x'"}); !slices.Equal(got, []string{"1", "1"}) {
			t.Errorf("got %q", got)
		}
	})
}

// TestRollback has SQLite end the transaction, and tries to write behind it.
func TestRollback(t *testing.T) {
	withGo(t, func(r *rig) {
		call1[int](r, lobby, "book", 1)
		// After this nothing lands, and the turn fails.
		got := r.code(lobby, "sql", []string{
			"insert into book values(2, '')", "insert or rollback into book values(1, '')", "insert into book values(3, '')",
			"create table other(x)",
		})
		if got != "internal" {
			t.Errorf("the turn: %q", got)
		}
		if got := call1[int](r, lobby, "book", 10); got != 11 {
			t.Errorf("balance %d: part of a turn has landed", got)
		}
		if got := r.code(lobby, "sql", []string{"insert into other values(1)"}); got != "" {
			t.Errorf("got %q", got)
		}
	})
}

func TestQueue(t *testing.T) {
	withGo(t, func(r *rig) {
		a := call1[int](r, lobby, "send", "other")
		if b := call1[int](r, lobby, "send", "other"); b != a {
			t.Errorf("the same key has made two messages, %d and %d", a, b)
		}
		for i := range 2 {
			if _, err := r.Send(r.ctx, lobby, queue.Send{Name: "other", Body: i}); err != nil {
				t.Fatal(err)
			}
		}
		if got := call1[int](r, lobby, "receive", nil); got != 33 { // the turn's own writes aren't counted
			t.Errorf("got %d", got)
		}
		if got := call1[int](r, lobby, "receive", nil); got != 1 {
			t.Errorf("got %d: all but one are gone, and that is put off", got)
		}
		must(t, r.Store().View(r.ctx, lobby.String(), func(v *greenroom.View) error {
			n := 0
			for m, err := range queue.List(r.ctx, v.Lower().Snapshot, time.Now(), nil) {
				if err != nil {
					return err
				}
				if n++; n > 1 || m.Failure.Code != "busy" || m.Failure.Text != "another time" {
					t.Errorf("message %d was given back with %+v", n, m.Failure)
				}
			}
			return nil
		}))
		call1[int](r, lobby, "send", "work")
		for call1[int](r, lobby, "total", nil) != 5 { // the hook completes it
		}
	})
}

// TestPermanent: a permanent error of a module makes a dead letter of the message at once, whether its handler returns the error or gives
// the message back with it.
func TestPermanent(t *testing.T) {
	withGo(t, func(r *rig) {
		ways := []string{"return", "nack"}
		for _, how := range ways {
			if _, err := r.Send(r.ctx, lobby, queue.Send{Name: "bad", Body: how}); err != nil {
				t.Fatal(err)
			}
		}
		dead := map[string]queue.Stored{}
		for len(dead) < len(ways) {
			call1[int](r, lobby, "total", nil)
			must(t, r.Store().View(r.ctx, lobby.String(), func(v *greenroom.View) error {
				for m, err := range v.Messages(&queue.ListOptions{Names: []string{"bad.dlq"}}) {
					if err != nil {
						return err
					}
					dead[m.Failure.Text] = m
				}
				return nil
			}))
		}
		for _, how := range ways {
			if m := dead[how]; m.Deliveries != 1 || m.Failure.Code != "no_such_order" || len(m.Failure.Attempts) != 1 {
				t.Errorf("%s: got %+v", how, m)
			}
		}
	})
}

// A sink is a client.
type sink struct {
	mu     sync.Mutex
	heard  []string
	closed string
}

func (s *sink) Send(e host.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text string
	if err := e.Body.Decode(&text); err != nil {
		text = err.Error()
	}
	s.heard = append(s.heard, e.Name+": "+text)
}

func (s *sink) Close(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = reason
}

func (s *sink) want(t *testing.T, closed string, heard ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.heard, heard) || s.closed != closed {
		t.Errorf("heard %q, closed %q; want %q, %q", s.heard, s.closed, heard, closed)
	}
}

func TestConns(t *testing.T) {
	withGo(t, func(r *rig) {
		sinks := map[string]*sink{"ann": {}, "bob": {}, "nobody": {}}
		ids := map[string]host.Joined{}
		for _, name := range []string{"ann", "bob", "nobody"} {
			p, err := host.Encode(name)
			must(t, err)
			ids[name], err = r.Join(r.ctx, &host.Join{Actor: lobby, Transport: sinks[name], Parameters: p, Hibernate: name == "ann"})
			if want := map[string]string{"nobody": "refused"}[name]; err != nil && host.Code(err) != want || err == nil && want != "" {
				t.Errorf("%s: %v", name, err)
			}
		}
		args, err := host.Encode("hello")
		must(t, err)
		got, err := r.Do(r.ctx, &host.Call{Actor: lobby, Action: "say", Args: args, Conn: ids["bob"].ID})
		var who string
		if must(t, errors.Join(err, got.Decode(&who))); who != "bob" {
			t.Errorf("%q has said it", who)
		}
		if got := call1[[]string](r, lobby, "people", nil); len(got) != 2 {
			t.Errorf("there are %q", got)
		}
		must(t, r.Leave(r.ctx, lobby, ids["bob"].ID, "bye"))
		if got := call1[int](r, lobby, "kick", "closed"); got != 0 {
			t.Errorf("%d are left", got)
		}
		sinks["ann"].want(t, "closed", "welcome: ann", "said: hello", "said: bob has left: bye")
		sinks["bob"].want(t, "bye", "welcome: bob", "said: hello")
		sinks["nobody"].want(t, "")
	})
}

// TestCaller: a module has the caller, and decides on subscriptions.
func TestCaller(t *testing.T) {
	withGo(t, func(r *rig) {
		ann := host.WithCaller(r.ctx, &host.Caller{ID: "ann", Claims: []byte(`{"role":"cook"}`)})
		ask := func(ctx context.Context, through conn.ID, want string) {
			t.Helper()
			got, err := r.Do(ctx, &host.Call{Actor: lobby, Action: "asker", Conn: through})
			var who string
			if must(t, errors.Join(err, got.Decode(&who))); who != want {
				t.Errorf("it was %q, want %q", who, want)
			}
		}
		ask(r.ctx, "", "nobody")
		ask(ann, "", `ann{"role":"cook"}`)
		ask(host.WithCaller(r.ctx, &host.Caller{}), "", "")
		j, err := r.Join(ann, &host.Join{Actor: lobby, Transport: &sink{}, Hibernate: true})
		must(t, err)
		ask(r.ctx, j.ID, `ann{"role":"cook"}`)
		must(t, r.Subscribe(r.ctx, lobby, j.ID, "secret", true))
		must(t, r.Subscribe(r.ctx, lobby, j.ID, "news", true))
		if err := r.Subscribe(host.WithCaller(r.ctx, &host.Caller{ID: "bob"}), lobby, j.ID, "secret", true); host.Code(err) != "refused" {
			t.Errorf("another's secret: %v", err)
		}
	})
}

func TestDestroy(t *testing.T) {
	withGo(t, func(r *rig) {
		call1[int](r, lobby, "add", 5)
		call1[any](r, lobby, "destroy", nil)
		if got := call1[int](r, lobby, "total", nil); got != 0 {
			t.Errorf("the actor has %d", got)
		}
		must(t, r.Destroy(r.ctx, lobby))
	})
}

// TestWorkflow starts a workflow in Go.
func TestWorkflow(t *testing.T) {
	m := thing(t)
	r := newRig(t, m, host.Options{})
	r.close()
	done := make(chan string, 1)
	r.kind.Workflow = host.NewWorkflow(func(_ *workflow.Context, in string) (string, error) {
		done <- in
		return in, nil
	}, nil)
	r.open()
	if got := call1[string](r, lobby, "flow", "in"); got != "pending" && got != "" {
		t.Errorf("the workflow is %q", got)
	}
	if got := <-done; got != "in" {
		t.Errorf("it was started with %q", got)
	}
	r.close()
}

// TestLog looks at what is logged, and that it is not more than may be.
func TestLog(t *testing.T) {
	m := thing(t)
	var book logBook
	r := newRig(t, m, host.Options{Logger: slog.New(slog.NewTextHandler(&book, nil))})
	call1[int](r, lobby, "log", 1)
	for _, want := range []string{
		`level=INFO msg="to stdout" actor=thing/lobby output=stdout`, `level=INFO msg="to stderr" actor=thing/lobby output=stderr`,
		`level=WARN msg="a line" actor=thing/lobby attrs="map[actor:forged n:0 who:guest]"`,
	} {
		if !strings.Contains(book.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, book.String())
		}
	}
	before := len(book.String())
	call1[int](r, lobby, "log", 2000)
	if got := len(book.String()) - before; got > 4*m.opts.LogBytes {
		t.Errorf("a flood of %d bytes", got)
	}
	if !strings.Contains(book.String(), "lines of the module's log were dropped") {
		t.Error("nothing is said of what was dropped")
	}
	r.close()
}

// TestTooMuch has the host keep more than it does.
func TestTooMuch(t *testing.T) {
	withGo(t, func(r *rig) {
		if got := call1[string](r, lobby, "swallowed", 2<<20); got != "too_large" {
			t.Errorf("an argument of 2 MiB: %q", got)
		}
		if got := call1[string](r, lobby, "swallowed", 1000); got != "fine" {
			t.Errorf("an argument of 1000 bytes: %q", got)
		}
	})
}

// TestCrowd has more actors than instances.
func TestCrowd(t *testing.T) {
	thing(t)
	code, err := guestCode()
	must(t, err)
	m, err := Compile(t.Context(), "thing", code, &Options{Instances: 2, Interpret: true, TurnTimeout: time.Hour})
	must(t, err)
	r := newRig(t, m, host.Options{})
	for range 2 {
		for i := range 4 {
			a := host.Address{Type: "thing", Key: fmt.Sprint(i)}
			call1[int](r, a, "add", 1)
			if got := call1[int](r, a, "wakes", nil); got != 1 {
				t.Errorf("an instance was woken %d times", got)
			}
			m.crowd.mu.Lock()
			if n := m.crowd.idle.Len() + m.crowd.busy; n > 2 {
				t.Errorf("there are %d instances", n)
			}
			m.crowd.mu.Unlock()
		}
	}
	if got := call1[int](r, host.Address{Type: "thing", Key: "0"}, "total", nil); got != 2 {
		t.Errorf("got %d", got)
	}
	r.close()
	if m.crowd.idle.Len() != 0 || m.crowd.busy != 0 {
		t.Errorf("%d instances are left", m.crowd.idle.Len())
	}
	must(t, m.Close(context.Background()))
}
