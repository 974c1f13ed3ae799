package admin

import (
	"context"
	"encoding/hex"
	"encoding/json"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/queue"
)

// A MessageList is a page of the queue of an actor, oldest first.
type MessageList struct {
	Messages []StoredMessage `json:"messages"`
	Next     queue.ID        `json:"next,omitempty"` // after of the next page; 0 on the last one
}

// A StoredMessage is a message, or a key that can't be read as one.
type StoredMessage struct {
	ID         *queue.ID       `json:"id"`    // null if the key isn't a message's
	Name       *string         `json:"name"`  // null if it can't be read
	State      *string         `json:"state"` // ready, delayed or leased
	Until      *Time           `json:"until"` // when the delay or the lease ends
	Deliveries uint32          `json:"deliveries"`
	Priority   int             `json:"priority"`
	Size       int             `json:"size"` // in bytes
	Created    *Time           `json:"created"`
	Problem    *string         `json:"problem"`  // why it can't be read
	Code       *string         `json:"code"`     // of the error of the last attempt that failed
	Error      *string         `json:"error"`    // the text of that
	Attempts   []Time          `json:"attempts"` // when the last eight of those that failed began
	From       *string         `json:"from"`     // the actor that sent it, if that is known
	Body       json.RawMessage `json:"body"`     // bytes are in base64, undefined is null; null if it can't be in JSON
	CBOR       string          `json:"cbor"`     // the body, in hexadecimal
}

func queueReads() []route {
	return []route{readActor("/queue", "List the messages of an actor with their bodies, oldest first. They stay where they are.", []param{
		{name: "name", kind: "string", repeated: true, what: "Messages of this name, or of one of these."}, afterParam, limitParam,
	}, func(_ context.Context, v *greenroom.View, q *query) (*MessageList, error) {
		limit, err := q.limit()
		if err != nil {
			return nil, err
		}
		after, err := q.number("after")
		if err != nil {
			return nil, err
		}
		out := &MessageList{Messages: []StoredMessage{}}
		var last queue.ID
		size := 0
		for m, err := range v.Messages(&queue.ListOptions{Names: q.values["name"], After: queue.ID(after), Limit: limit + 1}) {
			if err != nil {
				return nil, err
			}
			if size += len(m.Body); len(out.Messages) == limit || size > readBytes && len(out.Messages) > 0 {
				out.Next = last
				break
			}
			out.Messages = append(out.Messages, newStoredMessage(&m))
			last = max(last, m.ID)
		}
		return out, nil
	})}
}

func newStoredMessage(m *queue.Stored) StoredMessage {
	s := StoredMessage{
		ID: optional(m.ID), State: optional(m.State), Until: optional(NewTime(m.Available)), Deliveries: m.Deliveries, Priority: m.Priority, Size: m.Size,
		Created: optional(NewTime(m.Created)), Body: fromCBOR(m.Body), CBOR: hex.EncodeToString(m.Body),
	}
	s.Code, s.Error, s.From, s.Attempts = optional(m.Failure.Code), optional(m.Failure.Text), optional(m.From), []Time{}
	for _, at := range m.Failure.Attempts {
		s.Attempts = append(s.Attempts, NewTime(at))
	}
	if m.Err != nil {
		s.Problem = optional(m.Err.Error())
	} else {
		s.Name = &m.Name
	}
	return s
}
