package admin

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/persist"
)

// A State is what the actor's own record has. A value is JSON, in which bytes are in base64 and undefined is null; one that JSON cannot hold is a text with a literal of SQL in
// it, X'00FF'.
type State struct {
	Initialized bool            `json:"initialized"`
	Input       json.RawMessage `json:"input,omitempty"` // what it was created with; left out without one
	State       json.RawMessage `json:"state"`
	Exact       bool            `json:"exact,omitempty"` // State says all that is stored, so that SetState can replace it
	Events      []Event         `json:"events"`          // the schedule, the next one first
}

// An Event is one of the schedule.
type Event struct {
	ID       string          `json:"id"`
	At       Time            `json:"at"`
	Action   string          `json:"action"`
	Args     json.RawMessage `json:"args,omitempty"` // an array
	Cron     string          `json:"cron,omitempty"` // the rule by which it comes again, in the time zone of Zone
	Zone     string          `json:"zone,omitempty"`
	Attempts int             `json:"attempts,omitempty"` // that failed
	Again    Time            `json:"again,omitempty"`    // when the next attempt is
	Parked   bool            `json:"parked,omitempty"`   // the action is not called any more
	Problem  string          `json:"problem,omitempty"`  // of the last attempt
}

func stateReads() []route {
	return []route{readActor("/state", "Show the state of an actor, its input and its scheduled events.", nil, func(ctx context.Context, v *greenroom.View, q *query) (*State, error) {
		c, err := v.Record()
		if errors.Is(err, persist.ErrNoRecord) {
			return nil, &Error{Code: "not_found", Message: "the actor " + q.actor + " has no state"}
		}
		if err != nil {
			return nil, err
		}
		s := NewState(c, StateIsJSON(c))
		s.Exact = exactState(c.State, s.State)
		return s, nil
	})}
}

// StateIsJSON says whether input and state are JSON, which the record doesn't say: one of them is, and can't be CBOR. A number may be both, such as 5, 85, 950 and 9.5.
func StateIsJSON(c *persist.Contents) bool {
	for _, value := range [][]byte{c.Input, c.State} {
		if fromCBOR(value) == nil && json.Valid(value) {
			return true
		}
	}
	return false
}

// NewState returns the record c, with input and state in JSON or, else, in CBOR.
func NewState(c *persist.Contents, isJSON bool) *State {
	value := func(v []byte) json.RawMessage {
		var j json.RawMessage
		if isJSON {
			j = compact(v)
		}
		if j == nil {
			j = fromCBOR(v)
		}
		if j == nil {
			j = blobJSON(v)
		}
		return j
	}
	s := &State{Initialized: c.Initialized, State: value(c.State), Events: []Event{}}
	if c.Input != nil {
		s.Input = value(c.Input)
	}
	isJSON = false // of the arguments of events
	for _, ev := range c.Events {
		e := Event{
			ID: ev.ID, At: NewTime(ev.At), Action: ev.Action, Cron: ev.Cron, Zone: ev.Zone,
			Attempts: ev.Attempts, Again: NewTime(ev.NotBefore), Parked: ev.Parked, Problem: ev.LastError,
		}
		if ev.Args != nil {
			e.Args = value(ev.Args)
		}
		s.Events = append(s.Events, e)
	}
	return s
}
