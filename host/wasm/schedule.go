package wasm

import (
	"math"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/abi"
	"github.com/greenroomdb/greenroom/persist"
)

// scheduleFunctions are those for what the actor has to do.
var scheduleFunctions = []function{
	{name: "schedule_add", keep: true, body: with(scheduleAdd)},
	{name: "schedule_cancel", keep: true, body: with(scheduleCancel)},
	{name: "schedule_list", body: nothing(scheduleList)},
}

// maxTime is the last time, in milliseconds, that everybody can read: the year 9999.
const maxTime = 253402300799999

func scheduleAdd(c *call, j *abi.Job) (any, error) {
	job := persist.Job{ID: j.ID, Action: j.Action, Cron: j.Cron, Zone: j.Zone}
	at := j.At
	if at == 0 && j.Cron == "" {
		at = abi.Int(c.now.UnixMilli()) + min(max(j.After, 0), math.MaxInt64/2)
	}
	if at < 0 || at > maxTime {
		return nil, &host.Error{Code: "bad_job", Message: "the time is out of range"}
	}
	if j.Cron == "" {
		job.At = time.UnixMilli(int64(at))
	}
	if len(j.Args) > 0 {
		job.Args = []any{host.Raw(j.Args)}
	}
	return c.host.Schedule(job)
}

func scheduleCancel(c *call, id *string) (any, error) { return nil, c.host.Cancel(*id) }

func scheduleList(c *call) (any, error) {
	events, err := c.host.Events()
	if err != nil {
		return nil, err
	}
	all := make([]abi.Scheduled, len(events))
	for i := range events {
		if all[i], err = scheduled(&events[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// scheduled returns an event as modules get it: with the first of its arguments, which is
// the only one that an action gets.
func scheduled(e *persist.Event) (abi.Scheduled, error) {
	var args []abi.Raw
	if len(e.Args) > 0 {
		if err := abi.Unmarshal(e.Args, &args); err != nil {
			return abi.Scheduled{}, err
		}
	}
	s := abi.Scheduled{
		ID: e.ID, At: abi.Int(e.At.UnixMilli()), Action: e.Action, Cron: e.Cron, Zone: e.Zone, Attempts: e.Attempts, Parked: e.Parked,
	}
	if len(args) > 0 {
		s.Args = args[0]
	}
	return s, nil
}
