package guest

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/host/internal/abi"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

// A Context is what a turn does everything through, as host.Context is: what is written is
// staged, and lands when the turn's function has returned nil. It must not be kept.
type Context struct {
	labels
	origin
}

// An origin is from where a turn was asked for.
type origin struct {
	conn   string // the connection, "" for none
	caller *Caller
}

// A Caller is a party that calls actors, as host.Caller is.
type Caller struct {
	ID     string          // "" for one that isn't known
	Claims json.RawMessage // what else is known about it, in JSON; nil for nothing
}

func callerOf(c *abi.Caller) *Caller {
	if c == nil {
		return nil
	}
	return &Caller{ID: c.ID, Claims: json.RawMessage(c.Claims)}
}

// Caller returns the caller that asked for the turn, nil if nothing is said about it, as host.Context.Caller does.
func (o *origin) Caller() *Caller { return o.caller }

// A labels is what a turn does to the labels of its actor.
type labels struct{}

// Label sets a label of the actor, by which it is found (greenroom.Store.Actors), when the turn lands; "" removes it.
func (labels) Label(key, value string) error {
	return call(label, abi.Label{Key: key, Value: value}, nil)
}

// An Address names an actor: its type, and a key.
type Address struct{ Type, Key string }

// Address returns whose turn it is, and the id of the actor in the store.
func (c *Context) Address() (a Address, id string, err error) {
	var s abi.Self
	err = call(whoami, nil, &s)
	return Address{s.Type, s.Key}, s.ID, err
}

// Now returns when the turn began, to the millisecond.
func (c *Context) Now() time.Time { return time.UnixMilli(now()) }

// Input decodes what the actor was created with into v; without an input v stays as it
// is.
func (c *Context) Input(v any) error {
	var r Raw
	if err := call(input, nil, &r); err != nil {
		return err
	}
	return r.Decode(v)
}

// Destroy removes the actor and everything it stores when the turn lands. Type.Destroy is
// called after the function that handles the event returns; if Type.Destroy fails, so does
// the turn.
func (c *Context) Destroy() error { return call(destroy, nil, nil) }

// Log returns a logger whose lines go to the host's, with the actor's name, at once. There
// is a limit to how many, beyond which they are dropped.
func (c *Context) Log() *slog.Logger { return slog.New(logHandler{}) }

// RawState returns the actor's state, with what the turn has made of it; undefined if it
// was never set.
func (c *Context) RawState() (Raw, error) {
	var r Raw
	err := call(stateGet, nil, &r)
	return r, err
}

// SetRawState replaces the actor's state by one value in CBOR.
func (c *Context) SetRawState(value Raw) error { return callRaw(stateSet, value, nil) }

// State returns the actor's state as a T, with what the turn has made of it: the zero T
// if it was never set.
func State[T any](c *Context) (v T, err error) {
	r, err := c.RawState()
	if err != nil {
		return v, err
	}
	return v, r.Decode(&v)
}

// SetState replaces the actor's state, for the rest of the turn at once, and for others when the
// turn lands. All of it is encoded, and written whole.
func SetState[T any](c *Context, v T) error {
	r, err := Encode(cbor.Typed(v))
	if err != nil {
		return err
	}
	return c.SetRawState(r)
}

// Mutate changes the actor's state: fn gets a copy, and what it leaves there is the new
// state, unless it returns an error, which Mutate returns. fn may read c and change other things
// of it; a state that it sets itself is replaced.
func Mutate[T any](c *Context, fn func(v *T) error) error {
	v, err := State[T](c)
	if err != nil {
		return err
	}
	if err := fn(&v); err != nil {
		return err
	}
	return SetState(c, v)
}

// StartWorkflow starts the actor's workflow, which is written in Go and part of the host,
// when the turn has landed. One that is over is an Error "workflow_over": see StartWorkflowAgain.
func (c *Context) StartWorkflow(input any) error {
	r, err := Encode(input)
	if err != nil {
		return err
	}
	return callRaw(workflowStart, r, nil)
}

// StartWorkflowAgain is StartWorkflow that also starts a workflow that is over, anew: its history is removed, and its steps are
// done again. A host of an older version doesn't know it, and refuses the module.
func (c *Context) StartWorkflowAgain(input any) error {
	r, err := Encode(input)
	if err != nil {
		return err
	}
	return callRaw(workflowStartAgain, r, nil)
}

// WorkflowStatus returns the state of the actor's workflow, a word such as "completed",
// and why it has failed, if it has.
func (c *Context) WorkflowStatus() (state string, failure *Error, err error) {
	var w abi.Workflow
	if err := call(workflowStatus, nil, &w); err != nil {
		return "", nil, err
	}
	return w.State, (*Error)(w.Failure), nil
}

// logHandler sends the lines of a slog.Logger to the host.
type logHandler struct {
	attrs []slog.Attr
	group string
}

// Enabled implements slog.Handler: what is wanted the host decides.
func (logHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	line := abi.Record{Level: int(r.Level), Message: r.Message, Attrs: map[string]any{}}
	add := func(prefix string, a slog.Attr) { line.Attrs[prefix+a.Key] = plain(a.Value) }
	for _, a := range h.attrs {
		add("", a)
	}
	r.Attrs(func(a slog.Attr) bool {
		add(h.group, a)
		return true
	})
	return call(logLine, line, nil)
}

// plain returns a value that can be sent.
func plain(v slog.Value) any {
	switch v = v.Resolve(); v.Kind() {
	case slog.KindBool, slog.KindFloat64, slog.KindInt64, slog.KindUint64:
		if b, err := Encode(v.Any()); err == nil {
			return b
		}
	}
	return v.String()
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(as []slog.Attr) slog.Handler {
	all := append([]slog.Attr{}, h.attrs...)
	for _, a := range as {
		all = append(all, slog.Attr{Key: h.group + a.Key, Value: a.Value})
	}
	return logHandler{all, h.group}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.attrs, h.group + name + "."}
}
