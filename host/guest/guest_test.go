//go:build !wasip1

package guest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// handle has a handle an event as if the host had called it.
func handle(t *testing.T, f *fakeHost, a *Type, e *abi.Event) {
	t.Helper()
	serving.kind = newKind(a)
	t.Cleanup(func() { serving.kind = nil })
	b, err := Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	f.pending = b
	handleTurn(int32(len(b)))
}

// TestNoHost: without a host every function says so.
func TestNoHost(t *testing.T) {
	c := &Context{}
	_, state := State[int](c)
	_, get := c.KV().Get(nil)
	_, add := c.Schedule().After(1, "a", nil)
	for i, err := range []error{state, get, add, c.Destroy(), c.Broadcast("e", 1), c.Send(Address{}, Send{}), SetState(c, 1), c.Input(nil)} {
		if !errors.Is(err, ErrNoHost) {
			t.Errorf("%d: got %v", i, err)
		}
	}
}

// nothing is an action that does nothing.
func nothing(name string) AnyAction {
	return NewCommand(name, func(*Context, struct{}) error { return nil })
}

// TestBadActions: a module that serves an action without a function, or two of one name,
// says so when it is initialized.
func TestBadActions(t *testing.T) {
	for name, actions := range map[string][]AnyAction{
		"a": {nothing("a"), nothing("a")}, "b": {NewCommand[int]("b", nil)}, "c": {NewAction[int, int]("c", nil)},
	} {
		func() {
			defer func() {
				if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), strconv.Quote(name)) {
					t.Errorf("%s: got %v", name, p)
				}
			}()
			Serve(&Type{Actions: actions})
		}()
	}
}

// TestScheduledAction: an action is scheduled with its name and what it takes, and one that
// isn't served is not.
func TestScheduledAction(t *testing.T) {
	f := &fakeHost{answer: map[string]any{"schedule_add": "id"}}
	f.install(t)
	double := NewAction("double", func(_ *Context, n int) (int, error) { return 2 * n, nil })
	tick := NewCommand("tick", func(*Context, struct{}) error { return nil })
	serving.kind = newKind(&Type{Actions: []AnyAction{double, tick}})
	defer func() { serving.kind = nil }()
	c := &Context{}
	if id, err := double.After(c, time.Second, 21); id != "id" || err != nil {
		t.Errorf("got %q, %v", id, err)
	}
	if _, err := tick.At(c, time.UnixMilli(5), struct{}{}); err != nil {
		t.Error(err)
	}
	if _, err := NewCommand("tick", func(*Context, int) error { return nil }).After(c, 1, 1); err == nil {
		t.Error("an action that isn't served is scheduled")
	}
	f.want(t, "schedule_add map[action:double args:21 at:2000]", "schedule_add map[action:tick args:<nil> at:5]")
}

// TestDescribe: what an actor has is what it says.
func TestDescribe(t *testing.T) {
	f := &fakeHost{}
	f.install(t)
	serving.kind = nil
	describeSelf()
	hook := func(*Context) error { return nil }
	Serve(&Type{
		Actions: []AnyAction{nothing("b"), nothing("a")}, Create: hook, Sleep: hook,
		Other:   func(*Context, string, Raw) (Raw, error) { return nil, nil },
		Message: func(*Context, *Message) error { return nil }, MessageNames: []string{"m"},
	})
	describeSelf()
	f.want(t, "reply map[actions:[] hooks:[] messages:[] other:false]",
		"reply map[actions:[a b] hooks:[create sleep message] messages:[m] other:true]")
	defer func() {
		if serving.kind = nil; recover() == nil {
			t.Error("a second Serve has not panicked")
		}
	}()
	Serve(&Type{})
}

// TestHandle: each kind of event gets to its function, and what that returns to the host.
func TestHandle(t *testing.T) {
	f := &fakeHost{}
	f.install(t)
	var told []string
	tell := func(what string, err error) error {
		told = append(told, what)
		return err
	}
	a := &Type{
		Actions: []AnyAction{
			NewAction("double", func(_ *Context, n int) (int, error) { return 2 * n, nil }),
			NewCommand("refuse", func(*Context, struct{}) error { return &Error{Code: "no", Message: "No."} }),
			NewCommand("break", func(*Context, struct{}) error { return errors.New("broken") }),
			nothing("quiet"),
		},
		Create:     func(*Context) error { return tell("create", nil) },
		Wake:       func(*Context) error { return tell("wake", nil) },
		Sleep:      func(*Context) error { return tell("sleep", nil) },
		Destroy:    func(*Context) error { return tell("destroy", nil) },
		Connect:    func(_ *Context, n *Conn) error { return tell("connect "+n.ID(), nil) },
		Disconnect: func(_ *Context, n *Conn, why string) error { return tell("disconnect "+n.ID()+why, nil) },
		Subscribe: func(c *Context, n *Conn, event string) error {
			return tell("subscribe "+n.ID()+event+c.Caller().ID+string(c.Caller().Claims), nil)
		},
		Alarm:   func(_ *Context, e Event) error { return tell("alarm "+e.Action+e.At.UTC().String(), nil) },
		Message: func(_ *Context, m *Message) error { return tell("message "+m.Name, errors.New("later")) },
	}
	for _, e := range []abi.Event{
		{Kind: "action", Name: "double", Args: abi.Raw{21}}, {Kind: "action", Name: "double", Args: abi.Raw{0x61, 'x'}},
		{Kind: "action", Name: "refuse"}, {Kind: "action", Name: "break"}, {Kind: "action", Name: "quiet"}, {Kind: "action", Name: "none"},
		{Kind: "create"}, {Kind: "wake"}, {Kind: "sleep"}, {Kind: "destroy"}, {Kind: "connect", Conn: "c"},
		{Kind: "disconnect", Conn: "c", Reason: "!"}, {Kind: "subscribe", Conn: "c", Name: "e", Caller: &abi.Caller{ID: "ann", Claims: "{}"}}, {Kind: "alarm", Alarm: &abi.Scheduled{Action: "a", At: 1.7e12}},
		{Kind: "message", Message: &abi.Message{Name: "m"}}, {Kind: "dance"},
	} {
		handle(t, f, a, &e)
	}
	f.want(t, "reply 42", "fail map[code:bad_arguments message:The arguments are not what the action takes.]",
		"fail map[code:no message:No.]", "fail map[code: message:broken]",
		"fail map[code:no_such_action message:Actors of this type have no such action.]",
		"fail map[code: message:later]",
		`fail map[code: message:guest: an event of kind "dance", which this package doesn't know]`)
	want := []string{"create", "wake", "sleep", "destroy", "connect c", "disconnect c!", "subscribe ceann{}", "alarm a2023-11-14 22:13:20 +0000 UTC", "message m"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	f.lossy = true
	handle(t, f, a, &abi.Event{Kind: "create"})
	f.want(t, "fail map[code: message:guest: the host has taken back what it gave]")
}

// TestFault: an error of the host has its code.
func TestFault(t *testing.T) {
	f := &fakeHost{answer: map[string]any{
		"kv_put": &abi.Fault{Code: "quota_exceeded", Message: "full"}, "kv_get": []byte{}, "kv_list": 5,
		"workflow_status": abi.Workflow{State: "failed", Failure: &abi.Fault{Code: "c", Message: "m"}},
		"schedule_list":   []abi.Scheduled{{ID: "i", At: 1.7e12, Args: abi.Raw{1}}},
	}}
	f.install(t)
	c := &Context{}
	if err := c.KV().Put([]byte("k"), nil); !errors.Is(err, &Error{Code: "quota_exceeded"}) || err.Error() != "full" {
		t.Errorf("got %v", err)
	}
	if v, err := c.KV().Get(nil); err != nil || v == nil || len(v) != 0 {
		t.Errorf("an empty value is %v, %v", v, err)
	}
	delete(f.answer, "kv_get")
	if _, err := c.KV().Get(nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	for _, err := range c.KV().List(ListOptions{}) {
		if err == nil {
			t.Error("a number is a page")
		}
	}
	if state, failure, err := c.WorkflowStatus(); state != "failed" || !errors.Is(failure, &Error{Code: "c"}) || err != nil {
		t.Errorf("got %q, %v, %v", state, failure, err)
	}
	if es, err := c.Schedule().List(); err != nil || len(es) != 1 || !es[0].At.Equal(time.UnixMilli(1.7e12)) || es[0].ID != "i" {
		t.Errorf("got %v, %v", es, err)
	}
	if got := c.Now(); !got.Equal(time.UnixMilli(1000)) {
		t.Errorf("it is %v", got)
	}
	if err := c.KV().Put(nil, nil); err == nil || c.Broadcast("e", func() {}) == nil {
		t.Error("a function is a value")
	}
}

// TestSend: messages for the own queue and for others have the same words.
func TestSend(t *testing.T) {
	f := &fakeHost{answer: map[string]any{"queue_send": 7}}
	f.install(t)
	c := &Context{}
	m := Send{Name: "n", Body: "b", Delay: time.Second, Key: "k", Priority: -7, Debounce: "d", DebounceMax: time.Minute}
	if id, err := c.Queue().Send(m); id != 7 || err != nil {
		t.Errorf("got %d, %v", id, err)
	}
	if err := c.Send(Address{"thing", "other"}, m); err != nil {
		t.Error(err)
	}
	const words = "map[body:b debounce:d debounce_max:60000 delay:1000 key:k name:n priority:-7]"
	f.want(t, "queue_send "+words, "send [map[key:other type:thing] "+words+"]")
	f.answer["send"] = &abi.Fault{Code: "outbox_full"}
	if err := c.Send(Address{}, Send{}); !errors.Is(err, &Error{Code: "outbox_full"}) {
		t.Errorf("got %v", err)
	}
	f.asked = nil
	if err := c.Send(Address{}, Send{Body: func() {}}); err == nil {
		t.Error("a function is a value")
	}
	f.want(t)
}

// TestLog: what a slog.Logger is given gets to the host, with plain values.
func TestLog(t *testing.T) {
	f := &fakeHost{}
	f.install(t)
	log := (&Context{}).Log().With("a", 1).WithGroup("g").With("b", true)
	log.Warn("text", "c", time.Second, "d", []int{1})
	f.want(t, "log [4 text map[a:1 g.b:true g.c:1s g.d:[1]]]")
}
