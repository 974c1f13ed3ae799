package host

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/greenroomdb/greenroom/host/internal/abi"
	"github.com/greenroomdb/greenroom/persist"
)

// An Action is what others may call of an actor, declared once: its name, by which
// programs elsewhere call it, and its function. A Type lists it, and Go code calls it by
// its own name, so that the compiler checks both ends:
//
//	var Add = host.NewAction("add", func(c *host.Context, n int) (total int, err error) {…})
//
//	counter := &host.Type{Name: "counter", Actions: []host.AnyAction{Add}}
//	…
//	total, err := Add.Call(ctx, h, "lobby", 2)
//
// An Action doesn't change, and may be listed in any number of hosts. In each of them it
// belongs to one type.
type Action[In, Out any] struct{ target[In] }

// A Command is an action without a result.
type Command[In any] struct{ target[In] }

// A target is what an Action and a Command have in common.
type target[In any] struct{ action action }

func (a *target[In]) declared() *action { return &a.action }

// Name returns the name with which the action was declared.
func (a *target[In]) Name() string { return a.action.Name }

// NewAction declares an action. The arguments of a call are one value in CBOR, which is
// decoded into an In, and what fn returns is encoded. Arguments that don't fit are
// ErrArgs.
//
// An In that is a struct{} takes anything, and stands for an action without arguments. An
// In or Out that is a Raw is the value as it is: an action that takes and returns Raw
// leaves it to others to know what they mean. fn must not change or keep such an In.
func NewAction[In, Out any](name string, fn func(c *Context, in In) (Out, error)) *Action[In, Out] {
	return &Action[In, Out]{target[In]{action{Action: abi.NewAction[Raw](name, fn, refusal[In](name)), in: reflect.TypeFor[In](), out: reflect.TypeFor[Out]()}}}
}

// NewCommand declares an action without a result; callers in other languages get undefined.
// See NewAction.
func NewCommand[In any](name string, fn func(c *Context, in In) error) *Command[In] {
	return &Command[In]{target[In]{action{Action: abi.NewCommand[Raw](name, fn, refusal[In](name)), in: reflect.TypeFor[In]()}}}
}

// refusal returns what makes an error of arguments that don't fit.
func refusal[In any](name string) func(error) error {
	return func(err error) error { return &argsError{name, reflect.TypeFor[In](), err} }
}

// Call calls the action of the actor with that key, as Host.Do does. Errors are those of
// Do; ErrNoAction says that no type of the host lists the action. A result that can't be
// decoded into an Out again is an error as well, of a call that has landed.
func (a *Action[In, Out]) Call(ctx context.Context, h *Host, key string, in In) (out Out, err error) {
	r, err := a.call(ctx, h, key, in)
	if err != nil {
		return out, err
	}
	if err := r.Decode(&out); err != nil {
		return out, fmt.Errorf("host: result of the action %q of %q: %w", a.action.Name, key, err)
	}
	return out, nil
}

// Call calls the command of the actor with that key, as Host.Do does. Errors are those of
// Do; ErrNoAction says that no type of the host lists the command.
func (a *Command[In]) Call(ctx context.Context, h *Host, key string, in In) error {
	_, err := a.call(ctx, h, key, in)
	return err
}

func (a *target[In]) call(ctx context.Context, h *Host, key string, in In) (Raw, error) {
	k := h.catalog.now.Load().owners[a.declared()]
	if k == nil {
		return nil, fmt.Errorf("%w: no type of the host lists %.80q", ErrNoAction, a.action.Name)
	}
	args, err := Encode(abi.Args(in))
	if err != nil {
		return nil, &argsError{action: a.action.Name, err: err}
	}
	return h.Do(ctx, &Call{Actor: Address{k.Name, key}, Action: a.action.Name, Args: args})
}

// At schedules the action of the turn's own actor for a time, and returns the id of the event. See
// greenroom.Tx.At, which also serves an action that schedules itself: a variable's function can't
// name the variable. ErrNoAction says that the actor's type doesn't list the action.
func (a *target[In]) At(c *Context, at time.Time, in In) (id string, err error) {
	if c.life.kind.actions[a.action.Name] != a.declared() {
		return "", fmt.Errorf("%w: %s doesn't list %.80q", ErrNoAction, c.life.kind.Name, a.action.Name)
	}
	job := persist.Job{Action: a.action.Name, At: at}
	if args := abi.Args(in); args != nil {
		job.Args = []any{args}
	}
	return c.Schedule(job)
}

// After schedules the action of the turn's own actor for d after the turn began. See At.
func (a *target[In]) After(c *Context, d time.Duration, in In) (id string, err error) {
	return a.At(c, c.now.Add(d), in)
}
