package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
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
	}, thing(map[string]Handler{"add": add}))
}

func TestBadTypes(t *testing.T) {
	flow := NewWorkflow(func(*workflow.Context, int) (int, error) { return 0, nil }, nil)
	for _, types := range [][]*Actor{
		{{}},
		{{Name: "a/b"}},
		{{Name: "a"}, {Name: "a"}},
		{{Name: "a", Actions: map[string]Handler{"host:x": add}}},
		{{Name: "a", Workflow: flow, Message: inbox(nil).Message}},
	} {
		r := &rig{TB: t, ctx: t.Context()}
		_, err := Open(r.ctx, nil, types, nil)
		wantErr(t, err, ErrTypes)
	}
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
	}, &Actor{Name: "thing", Actions: map[string]Handler{
		"nothing": Action(func(*Context, struct{}) (struct{}, error) { return struct{}{}, nil }),
		"echo":    Action(func(_ *Context, in Raw) (Raw, error) { return in, nil }),
	}, Other: func(c *Context, action string, args Raw) (Raw, error) {
		if action != "other" {
			return nil, ErrNoAction
		}
		return args, nil
	}})
}
