package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/workflow"
)

func TestCode(t *testing.T) {
	own := &Error{Code: "out_of_stock", Message: "There is none left.", Err: errors.New("secret")}
	for _, c := range []struct {
		err  error
		want string
	}{
		{own, "out_of_stock"},
		{fmt.Errorf("buy: %w", own), "out_of_stock"},
		{fmt.Errorf("%w: %w", ErrUnknownOutcome, own), "unknown_outcome"},
		{fmt.Errorf("%w: %w", ErrUnknownOutcome, context.Canceled), "unknown_outcome"},
		{&actorstore.InUseError{}, "actor_in_use"},
		{&batch.LimitError{Err: batch.ErrValueTooLarge}, "value_too_large"},
		{errors.New("pebble: file 17 is gone"), "internal"},
		{&Error{}, "internal"},
	} {
		if got := Code(c.err); got != c.want {
			t.Errorf("%v: code %q, want %q", c.err, got, c.want)
		}
		if m := Message(c.err); m == "" || strings.Contains(m, "secret") || strings.Contains(m, "pebble") {
			t.Errorf("%v: message %q", c.err, m)
		}
	}
	if code, message := Code(nil), Message(nil); code != "" || message != "" {
		t.Errorf("nil: code %q, message %q", code, message)
	}
	seen := map[string]bool{}
	for _, f := range faults {
		if f.code == "" || !strings.HasSuffix(f.message, ".") {
			t.Errorf("%v: code %q, message %q", f.err, f.code, f.message)
		}
		seen[f.code] = true
	}
	if seen["internal"] {
		t.Error("internal is the code of something")
	}
}

// TestNoSpace: while the store has no room a turn that writes is refused and one that reads isn't, and the same life of the actor goes on
// when there is room.
func TestNoSpace(t *testing.T) {
	lives := 0
	read := NewAction("read", func(c *Context, _ struct{}) (int, error) { return greenroom.State[int](c) })
	typ := thing(add, read)
	typ.Wake = func(*Context) error { lives++; return nil }
	bubble(t, Options{}, func(r *rig) {
		for round := 1; round <= 3; round++ {
			if n := r.call(lobby, "add", 1); n != round {
				t.Errorf("the state is %d, not %d", n, round)
			}
			r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.NotApplied(greenroom.ErrNoSpace), Times: faultkv.Forever})
			for range 2 {
				_, err := add.Call(r.ctx, r.Host, "lobby", 1)
				if wantErr(t, err, greenroom.ErrNoSpace); Code(err) != "no_space" {
					t.Errorf("the code of %v is %q", err, Code(err))
				}
				if n, err := read.Call(r.ctx, r.Host, "lobby", struct{}{}); n != round || err != nil {
					t.Errorf("meanwhile the state is %d, %v", n, err)
				}
			}
			r.engine.Heal()
		}
		if lives != 1 {
			t.Errorf("the actor has been awake %d times", lives)
		}
	}, typ)
}

func TestRefused(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		for _, c := range []struct {
			call Call
			want error
		}{
			{Call{Actor: Address{"nothing", "x"}, Action: "add"}, ErrNoType},
			{Call{Actor: lobby, Action: "subtract"}, ErrNoAction},
			{Call{Actor: Address{"thing", ""}, Action: "add"}, ErrAddress},
			{Call{Actor: Address{"thing", strings.Repeat("x", 300)}, Action: "add"}, ErrAddress},
			{Call{Actor: Address{"thing", "\xff"}, Action: "add"}, ErrAddress},
			{Call{Actor: lobby, Action: "add", Args: Raw{0x18}}, ErrArgs},
			{Call{Actor: lobby, Action: "add", Args: Raw{0x61, 'x'}}, ErrArgs},
			{Call{Actor: lobby, Action: "add", Existing: true}, nil}, // the call before has created it
			{Call{Actor: Address{"thing", "other"}, Action: "add", Existing: true}, ErrNoActor},
			{Call{Actor: Address{"thing", "other"}, Action: "add", Conn: "x"}, ErrNoActor},
			{Call{Actor: lobby, Action: "add", Conn: "x"}, ErrNoConn},
		} {
			_, err := r.Do(r.ctx, &c.call)
			if !errors.Is(err, c.want) || c.want != nil && Code(err) == "internal" {
				t.Errorf("%+v: %v, code %s, want %v", c.call, err, Code(err), c.want)
			}
		}
		must(t, r.Ready(r.ctx))
	}, thing(add))
}

func TestBadTypes(t *testing.T) {
	code := func(*workflow.Context, int) (int, error) { return 0, nil }
	var none workflow.Func[int, int]
	for _, c := range []struct {
		types []*Type
		names []string // what the error says
	}{
		{[]*Type{nil}, nil},
		{[]*Type{{}}, nil},
		{[]*Type{{Name: "a/b"}}, []string{"a/b"}},
		{[]*Type{{Name: "a"}, {Name: "a"}}, nil},
		{[]*Type{{Name: "a", Actions: []AnyAction{takes[int]("host:x")}}}, []string{"host:x"}},
		{[]*Type{{Name: "a", Actions: []AnyAction{add, nil}}}, []string{"a"}},
		{[]*Type{{Name: "a", Actions: []AnyAction{NewAction[int, int]("y", nil)}}}, []string{"a", `"y"`}},
		{[]*Type{{Name: "a", Actions: []AnyAction{NewCommand[int]("y", nil)}}}, []string{"a", `"y"`}},
		{[]*Type{{Name: "a", Actions: []AnyAction{takes[int]("y"), takes[int]("y")}}}, []string{"a", `"y"`}},
		{[]*Type{{Name: "a", Actions: []AnyAction{add}}, {Name: "b", Actions: []AnyAction{add}}}, []string{"a", "b", `"add"`}},
		{[]*Type{{Name: "a", Workflow: NewWorkflow(none, nil)}}, []string{"a"}},
		{[]*Type{{Name: "a", Workflow: &Workflow{}}}, []string{"a"}},
		{[]*Type{{Name: "a", Workflow: NewWorkflow(code, nil), Message: inbox(nil).Message}}, []string{"a"}},
	} {
		_, err := Open(t.Context(), nil, c.types, nil)
		wantErr(t, err, ErrTypes)
		for _, name := range c.names {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("it doesn't name %s: %v", name, err)
			}
		}
	}
}

// TestArguments: a caller that passes other arguments than an action takes is told which it takes.
// The error in the log names the action and has no prefix twice.
func TestArguments(t *testing.T) {
	type order struct {
		Item  string `json:"item"`
		Count int    `cbor:"n,omitempty"`
		Price float64
		note  string
	}
	_ = order{}.note
	bubble(t, Options{}, func(r *rig) {
		for _, c := range []struct {
			action string
			args   any
			want   string
		}{
			{"int", "x", `The action "int" takes an integer.`},
			{"pointer", "x", `The action "pointer" takes an integer.`},
			{"text", 1, `The action "text" takes a text.`},
			{"flag", 1, `The action "flag" takes true or false.`},
			{"float", "x", `The action "float" takes a number.`},
			{"list", 1, `The action "list" takes an array.`},
			{"map", 1, `The action "map" takes an object.`},
			{"order", map[string]any{"item": 1}, `The action "order" takes an object of item, n, Price.`},
			{"int", Raw{0x18}, `The arguments of "int" are not one value in CBOR.`},
		} {
			_, err := invoke[any](r.ctx, r.Host, lobby, c.action, c.args)
			wantErr(t, err, ErrArgs)
			if got := Message(err); got != c.want || Code(err) != "bad_arguments" {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if text := err.Error(); !strings.Contains(text, c.action) || strings.Count(text, "cbor: ") != 1 || strings.Count(text, "host: ") != 1 {
				t.Errorf("got %q", text)
			}
		}
	}, thing(
		takes[int]("int"),
		takes[*int]("pointer"),
		takes[string]("text"),
		takes[bool]("flag"),
		takes[float64]("float"),
		takes[[]int]("list"),
		takes[map[string]int]("map"),
		takes[order]("order"),
	))
}

// takes returns an action that takes a T.
func takes[T any](name string) AnyAction {
	return NewAction(name, func(_ *Context, in T) (T, error) { return in, nil })
}

func TestAddress(t *testing.T) {
	a, err := ParseAddress("room/a/b")
	must(t, err)
	if want := (Address{"room", "a/b"}); a != want || a.String() != "room/a/b" {
		t.Errorf("got %+v", a)
	}
	for _, bad := range []string{"", "room", "room/", "/x", "/"} {
		_, err := ParseAddress(bad)
		wantErr(t, err, ErrAddress)
	}
}

// TestNoArgs has actions without arguments, results, and with what is a Raw.
func TestNoArgs(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		out, err := r.Do(r.ctx, &Call{Actor: lobby, Action: "nothing"})
		must(t, err)
		if out != nil {
			t.Errorf("got %x", out)
		}
		in, err := Encode([]any{"a", 1})
		must(t, err)
		out, err = r.Do(r.ctx, &Call{Actor: lobby, Action: "echo", Args: in})
		must(t, err)
		if string(out) != string(in) {
			t.Errorf("got %x, want %x", out, in)
		}
		out, err = r.Do(r.ctx, &Call{Actor: lobby, Action: "other", Args: in})
		must(t, err)
		if string(out) != string(in) {
			t.Errorf("got %x, want %x", out, in)
		}
	}, &Type{Name: "thing", Actions: []AnyAction{
		NewCommand("nothing", func(*Context, struct{}) error { return nil }),
		NewAction("echo", func(_ *Context, in Raw) (Raw, error) { return in, nil }),
	}, Other: func(c *Context, action string, args Raw) (Raw, error) {
		if action != "other" {
			return nil, ErrNoAction
		}
		return args, nil
	}})
}

// TestWakeWithoutSpace: an actor that sleeps is woken to be read while no commit finds room, a call that writes says so, and later ones
// land when there is room.
func TestWakeWithoutSpace(t *testing.T) {
	read := NewAction("read", func(c *Context, _ struct{}) (int, error) { return greenroom.State[int](c) })
	rows := NewAction("rows", func(c *Context, _ struct{}) (n int, err error) {
		return n, c.QueryRow("select count(*) from t").Scan(&n)
	})
	insert := NewAction("insert", func(c *Context, n int) (struct{}, error) {
		_, err := c.Exec("create table if not exists t(n)")
		if err == nil {
			_, err = c.Exec("insert into t values (?)", n)
		}
		return struct{}{}, err
	})
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "add", 7)
		_, err := insert.Call(r.ctx, r.Host, "lobby", 1)
		must(t, err)
		for range 3 {
			pass(time.Hour)
			if n := r.Stats().Awake; n != 0 {
				t.Fatalf("%d actors are awake", n)
			}
			r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.NotApplied(greenroom.ErrNoSpace), Times: faultkv.Forever})
			for range 2 {
				if n, err := read.Call(r.ctx, r.Host, "lobby", struct{}{}); n != 7 || err != nil {
					t.Errorf("the state is %d, %v", n, err)
				}
				if n, err := rows.Call(r.ctx, r.Host, "lobby", struct{}{}); n != 1 || err != nil {
					t.Errorf("%d rows, %v", n, err)
				}
				_, err := add.Call(r.ctx, r.Host, "lobby", 1)
				if wantErr(t, err, greenroom.ErrNoSpace); Code(err) != "no_space" {
					t.Errorf("the code of %v is %q", err, Code(err))
				}
			}
			r.engine.Heal()
		}
		if n := r.call(lobby, "add", 1); n != 8 {
			t.Errorf("the state is %d", n)
		}
	}, thing(add, read, rows, insert))
}

// TestReadySpace: a host isn't ready while the disk of its store has less free than the engine keeps, and is again when there is room.
func TestReadySpace(t *testing.T) {
	read := NewAction("read", func(c *Context, _ struct{}) (int, error) { return greenroom.State[int](c) })
	disk := pebblekv.NewCrashDisk()
	disk.SetFree(1 << 30)
	engine, err := disk.Open(smallStore)
	must(t, err)
	r := newRigOn(t, engine, Options{}, thing(add, read))
	must(t, r.Ready(r.ctx))
	if n := r.call(lobby, "add", 1); n != 1 {
		t.Errorf("a call returns %d", n)
	}
	disk.SetFree(smallStore.MemtableBytes - 1)
	wantErr(t, r.Ready(r.ctx), greenroom.ErrNoSpace)
	_, err = add.Call(r.ctx, r.Host, "lobby", 1)
	if wantErr(t, err, greenroom.ErrNoSpace); Code(err) != "no_space" {
		t.Errorf("the code is %q", Code(err))
	}
	if n := r.call(lobby, "read", struct{}{}); n != 1 {
		t.Errorf("the state is %d", n)
	}
	disk.SetFree(smallStore.MemtableBytes)
	must(t, r.Ready(r.ctx))
	if n := r.call(lobby, "add", 1); n != 2 {
		t.Errorf("a call with room again returns %d", n)
	}
	r.close()
	must(t, engine.Close())
}
