package host

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/conn"
)

// errNotYours refuses a subscription.
var errNotYours = &Error{Code: "not_yours", Message: "These events are another's."}

// asking is an actor that says from which caller a turn is.
func asking() *Type {
	name := func(c *Caller) string {
		if c == nil {
			return "-"
		}
		var claims struct{ Role string }
		if err := c.Decode(&claims); err != nil {
			return err.Error()
		}
		return c.ID + "/" + claims.Role
	}
	whose := NewAction("whose", func(c *Context, _ struct{}) (string, error) {
		of := "none"
		if n := c.Conn(); n != nil {
			of = name(n.Caller())
		}
		return name(c.Caller()) + " " + of, nil
	})
	kind := thing(whose,
		NewAction("ask", func(c *Context, of string) (string, error) {
			return whose.Call(c, c.life.host, of, struct{}{})
		}),
		NewAction("ask for", func(c *Context, of string) (string, error) {
			return whose.Call(WithCaller(c, c.Caller()), c.life.host, of, struct{}{})
		}),
		NewCommand("later", func(c *Context, _ struct{}) error { _, err := c.After(time.Hour, "note", nil); return err }),
		NewCommand("note", func(c *Context, _ struct{}) error { return greenroom.SetState(c, name(c.Caller())) }),
		NewAction("noted", func(c *Context, _ struct{}) (string, error) { return greenroom.State[string](c) }),
	)
	kind.Connect = func(c *Context, n *Conn) error { return n.SetState(name(c.Caller()) + " " + name(n.Caller())) }
	kind.Subscribe = func(c *Context, n *Conn, event string) error {
		if event != name(c.Caller()) {
			return errNotYours
		}
		return nil
	}
	return kind
}

func ann() *Caller { return &Caller{ID: "ann", Claims: json.RawMessage(`{"role":"cook"}`)} }

// TestCaller: a turn knows its caller, through a connection also after sleep and restart, and no actor speaks for its caller by accident.
func TestCaller(t *testing.T) {
	bubble(t, Options{IdleTimeout: time.Minute}, func(r *rig) {
		ask := func(want, action string, in any, caller *Caller, through conn.ID) {
			r.Helper()
			args, err := Encode(in)
			must(r, err)
			ctx := r.ctx
			if caller != nil {
				ctx = WithCaller(ctx, caller)
			}
			out, err := r.Do(ctx, &Call{Actor: lobby, Action: action, Args: args, Conn: through})
			must(r, err)
			var got string
			if must(r, out.Decode(&got)); got != want {
				r.Errorf("%s through %q: %q, want %q", action, through, got, want)
			}
		}
		ask("- none", "whose", nil, nil, "")
		ask("ann/cook none", "whose", nil, ann(), "")
		ask("/ none", "whose", nil, &Caller{}, "")
		ask("- none", "ask", "other", ann(), "")
		ask("ann/cook none", "ask for", "other", ann(), "")
		ask("", "later", nil, ann(), "")
		pass(2 * time.Hour)
		ask("-", "noted", nil, ann(), "")

		for _, stays := range []bool{true, false} {
			j, err := r.Join(WithCaller(r.ctx, ann()), &Join{Actor: lobby, Transport: &sink{}, Hibernate: stays, Headers: []conn.Header{{Name: callerHeader, Value: `{"id":"eve"}`}}})
			must(r, err)
			ask("ann/cook ann/cook", "whose", nil, nil, j.ID)
			ask("bob/ ann/cook", "whose", nil, &Caller{ID: "bob"}, j.ID)
			must(r, r.Subscribe(r.ctx, lobby, j.ID, "ann/cook", true))
			if err := r.Subscribe(WithCaller(r.ctx, &Caller{ID: "bob"}), lobby, j.ID, "ann/cook", true); !errors.Is(err, errNotYours) {
				t.Errorf("another's events: %v", err)
			}
			must(r, r.Subscribe(r.ctx, lobby, j.ID, "bob/", false))
			must(r, r.Leave(r.ctx, lobby, j.ID, "bye"))
		}
		forged, err := r.Join(r.ctx, &Join{Actor: lobby, Transport: &sink{}, Hibernate: true, Headers: []conn.Header{{Name: callerHeader, Value: `{"id":"eve"}`}}})
		must(r, err)
		ask("- -", "whose", nil, nil, forged.ID)
		j, err := r.Join(WithCaller(r.ctx, ann()), &Join{Actor: lobby, Transport: &sink{}, Hibernate: true})
		must(r, err)
		pass(time.Hour)
		r.reopen()
		for _, bad := range []*Caller{{ID: "bob"}, {}} {
			if _, err := r.Rejoin(WithCaller(r.ctx, bad), lobby, j, &sink{}); !errors.Is(err, ErrNoConn) {
				t.Errorf("%q takes up a connection of ann: %v", bad.ID, err)
			}
		}
		if _, err := r.Rejoin(WithCaller(r.ctx, &Caller{}), lobby, forged, &sink{}); !errors.Is(err, ErrNoConn) {
			t.Errorf("a caller takes up a connection of which nothing is said: %v", err)
		}
		_, err = r.Rejoin(WithCaller(r.ctx, &Caller{ID: "ann"}), lobby, j, &sink{})
		must(r, err)
		ask("ann/cook ann/cook", "whose", nil, nil, j.ID)
		_, err = r.Rejoin(r.ctx, lobby, j, &sink{})
		must(r, err)
	}, asking())
}

// TestCallerClaims: claims that aren't JSON are refused.
func TestCallerClaims(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		if _, err := r.Join(WithCaller(r.ctx, &Caller{ID: "ann", Claims: json.RawMessage(`{`)}), &Join{Actor: lobby, Transport: &sink{}}); !errors.Is(err, ErrArgs) {
			t.Errorf("got %v", err)
		}
		var v int
		if err := (&Caller{Claims: json.RawMessage(`"x"`)}).Decode(&v); err == nil {
			t.Error("a text is decoded as a number")
		}
	}, asking())
}
