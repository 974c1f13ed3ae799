package guest

import (
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// An Action is what others may call of the actor, declared once, as a host.Action is. What
// it has no Call for: a module calls no other actors, but sends them messages
// (Context.Send).
type Action[In, Out any] struct{ target[In] }

// A Command is an action without a result.
type Command[In any] struct{ target[In] }

// An AnyAction is an *Action or a *Command, whatever it takes and returns.
type AnyAction interface{ declared() *action }

// An action is one without its types.
type action = abi.Action[*Context, Raw]

// A target is what an Action and a Command have in common.
type target[In any] struct{ action action }

func (a *target[In]) declared() *action { return &a.action }

// Name returns the name with which the action was declared.
func (a *target[In]) Name() string { return a.action.Name }

// NewAction declares an action: see host.NewAction. Arguments that don't fit are an *Error
// with the code "bad_arguments".
func NewAction[In, Out any](name string, fn func(c *Context, in In) (Out, error)) *Action[In, Out] {
	return &Action[In, Out]{target[In]{abi.NewAction[Raw](name, fn, refuse)}}
}

// NewCommand declares an action without a result.
func NewCommand[In any](name string, fn func(c *Context, in In) error) *Command[In] {
	return &Command[In]{target[In]{abi.NewCommand[Raw](name, fn, refuse)}}
}

func refuse(error) error {
	return &Error{Code: "bad_arguments", Message: "The arguments are not what the action takes."}
}

// At has the turn's own actor do the action at a time, and returns the id of the event. An
// action that the module doesn't serve is an error. See Schedule.At.
func (a *target[In]) At(c *Context, at time.Time, in In) (id string, err error) {
	if served().actions[a.action.Name] != a.declared() {
		return "", fmt.Errorf("guest: the module doesn't serve the action %q", a.action.Name)
	}
	return c.Schedule().At(at, a.action.Name, abi.Args(in))
}

// After has the turn's own actor do the action when d has passed since the turn began. See
// At.
func (a *target[In]) After(c *Context, d time.Duration, in In) (id string, err error) {
	return a.At(c, c.Now().Add(d), in)
}
