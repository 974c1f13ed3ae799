package host

import (
	"context"
	"errors"
	"strings"

	"github.com/greenroomdb/greenroom/persist"
)

// events are what an actor has scheduled.
type events struct{ *life }

// action returns what an event of that name calls.
func (l events) action(action string) persist.Action {
	run := l.turn(action)
	if run == nil {
		return nil
	}
	return func(ctx context.Context, f *persist.Firing) error {
		// The context ends when the schedule is closed, which waits for the action: so the
		// turn, which the actor runs on its way to sleep, too, goes by its own.
		t := newTurn("", func(c *Context) error {
			scheduleEvent(c.Span(), eventScheduleTriggered, &f.Event)
			if err := l.record.In(c.Batch()).Done(f); err != nil {
				return err
			}
			return run(c, f)
		})
		t.action, t.scheduled = action, true
		err := l.run(context.WithoutCancel(ctx), t, f)
		if errors.Is(err, errAgain) {
			err = ErrNotAwake
		}
		return err
	}
}

// run runs the turn of an event, with those of other actors if it is of an action that needs them.
func (l events) run(ctx context.Context, t *turn, f *persist.Firing) error {
	if a := l.kind.actions[t.action]; a == nil || a.others == nil {
		return l.inward(ctx, t)
	}
	var args Raw
	if err := f.Arg(0, &args); err != nil {
		return err
	}
	g, err := (&member{host: l.host, addr: l.addr, turn: t, inner: l.life}).joins(l.kind, t.action, args)
	if err != nil {
		return err
	}
	return g.run(ctx)
}

// turn returns what is done in the turn of an event, nil if nothing of the type is
// called so.
func (l events) turn(action string) func(c *Context, f *persist.Firing) error {
	switch {
	case !strings.HasPrefix(action, ownPrefix):
	case action == startWorkflow && l.workflow != nil:
		return l.workflow.startEvent
	default: // the type has no workflow any more, and its code isn't to take the event for one of its own
		return nil
	}
	if h := l.kind.handler(action); h != nil && (l.kind.actions[action] != nil || l.kind.Alarm == nil) {
		return func(c *Context, f *persist.Firing) error {
			var args Raw
			if err := f.Arg(0, &args); err != nil {
				return err
			}
			_, err := h(c, args)
			return err
		}
	}
	if l.kind.Alarm == nil {
		return nil
	}
	return func(c *Context, f *persist.Firing) error { return l.kind.Alarm(c, f.Event) }
}
