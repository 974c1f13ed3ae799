package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/persist"
)

// A Schedule is what the actor has to do at times of day, as a turn sees it: what the turn
// schedules and cancels lands with it, and isn't seen by List before.
//
// An event calls the action of its name, or Type.Alarm if there is none, in a turn of its
// own: that the event is done lands with what the turn does, so that it is done exactly
// once. After an error it comes again later. Action.At schedules an action that is declared.
type Schedule struct{ c *Context }

// Schedule returns the actor's schedule.
func (c *Context) Schedule() Schedule { return Schedule{c} }

// Add schedules a job and returns the id of its event. An action gets the first of
// Job.Args as its arguments. See persist.Tx.Add.
func (s Schedule) Add(job persist.Job) (id string, err error) {
	if strings.HasPrefix(job.Action, ownPrefix) {
		return "", fmt.Errorf("%w: %.80q", ErrNoAction, job.Action)
	}
	return s.add(job)
}

func (s Schedule) add(job persist.Job) (id string, err error) {
	if err := s.c.due(); err != nil {
		return "", err
	}
	if id, err = s.c.life.record.In(s.c.Batch()).Add(job); err == nil {
		s.c.scheduleEvent(eventScheduleCreated, &persist.Event{ID: id, Action: job.Action, At: job.At})
	}
	return id, err
}

// At has action called at a time, with args: one value, or a Raw; nil for none.
func (s Schedule) At(at time.Time, action string, args any) (id string, err error) {
	job := persist.Job{Action: action, At: at}
	if args != nil {
		job.Args = []any{args}
	}
	return s.Add(job)
}

// After has action called when d has passed since the turn began.
func (s Schedule) After(d time.Duration, action string, args any) (id string, err error) {
	return s.At(s.c.now.Add(d), action, args)
}

// Cancel removes an event, if there is one.
func (s Schedule) Cancel(id string) error {
	if err := s.c.check(); err != nil {
		return err
	}
	return s.c.life.record.In(s.c.Batch()).Cancel(id)
}

// List returns the events, the next first.
func (s Schedule) List() ([]persist.Event, error) {
	events, err := s.c.life.record.Schedule().List()
	return slices.DeleteFunc(events, func(e persist.Event) bool {
		return strings.HasPrefix(e.Action, ownPrefix)
	}), err
}

// alarmAction returns what an event of that name calls.
func (l *life) alarmAction(action string) persist.Action {
	run := l.eventTurn(action)
	if run == nil {
		return nil
	}
	return func(ctx context.Context, f *persist.Firing) error {
		// The context ends when the schedule is closed, which waits for the action: so the
		// turn, which the actor runs on its way to sleep, too, goes by its own.
		t := newTurn("", func(c *Context) error {
			c.scheduleEvent(eventScheduleTriggered, &f.Event)
			if err := l.record.In(c.Batch()).Done(f); err != nil {
				return err
			}
			return run(c, f)
		})
		t.action, t.scheduled = action, true
		err := l.inward(context.WithoutCancel(ctx), t)
		if errors.Is(err, errAgain) {
			err = ErrNotAwake
		}
		return err
	}
}

// eventTurn returns what is done in the turn of an event, nil if nothing of the type is
// called so.
func (l *life) eventTurn(action string) func(c *Context, f *persist.Firing) error {
	if action == startWorkflow && l.workflow != nil {
		return l.workflow.startEvent
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
