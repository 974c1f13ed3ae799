package guest

import (
	"time"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// Schedule is the actor's list of future events: what the turn schedules and cancels lands
// with it, and List doesn't show it before. An event calls the action of its name, or
// Type.Alarm if the type doesn't have that action.
type Schedule struct{ c *Context }

// Schedule returns the actor's schedule.
func (c *Context) Schedule() Schedule { return Schedule{c} }

// A Job is something to be scheduled: see persist.Job.
type Job struct {
	ID     string // "" makes a random one
	Action string
	Args   any       // one value; nil for none
	At     time.Time // to the millisecond
	Cron   string    // instead of At
	Zone   string    // of Cron; "" is UTC
}

// Add schedules a job and returns the id of its event.
func (Schedule) Add(j Job) (id string, err error) {
	job := abi.Job{ID: j.ID, Action: j.Action, Cron: j.Cron, Zone: j.Zone}
	if j.Args != nil {
		if job.Args, err = encode(j.Args); err != nil {
			return "", err
		}
	}
	if j.Cron == "" {
		job.At = abi.Int(j.At.UnixMilli())
	}
	err = call(scheduleAdd, job, &id)
	return id, err
}

// At schedules a call of action at a time, with args: one value; nil for none.
func (s Schedule) At(at time.Time, action string, args any) (id string, err error) {
	return s.Add(Job{Action: action, Args: args, At: at})
}

// After schedules a call of action when d has passed since the turn began.
func (s Schedule) After(d time.Duration, action string, args any) (id string, err error) {
	return s.At(s.c.Now().Add(d), action, args)
}

// Cancel removes an event, if there is one.
func (Schedule) Cancel(id string) error { return call(scheduleCancel, id, nil) }

// An Event is what has been scheduled.
type Event struct {
	ID         string
	At         time.Time
	Action     string
	Args       Raw
	Cron, Zone string
	Attempts   int
	Parked     bool
}

func eventOf(s *abi.Scheduled) Event {
	return Event{s.ID, time.UnixMilli(int64(s.At)), s.Action, Raw(s.Args), s.Cron, s.Zone, s.Attempts, s.Parked}
}

// List returns the events, the next first.
func (Schedule) List() ([]Event, error) {
	var got []abi.Scheduled
	if err := call(scheduleList, nil, &got); err != nil {
		return nil, err
	}
	var all []Event
	for i := range got {
		all = append(all, eventOf(&got[i]))
	}
	return all, nil
}
