package admin

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/queue"
)

// SendMessage enqueues a message.
var SendMessage = &Verb[SendMessageIn, SendMessageOut]{"queue/send", "Enqueue a message.", sendMessage}

// SendMessageIn is the request of SendMessage.
type SendMessageIn struct {
	Name        string          `json:"name"`
	Body        json.RawMessage `json:"body"`                   // any JSON
	Delay       time.Duration   `json:"delay,omitempty"`        // the message is hidden for so long, in nanoseconds
	Key         string          `json:"key,omitempty"`          // nothing is sent if a message of the name was sent with this key a moment ago
	Priority    int             `json:"priority,omitempty"`     // from -100 to 100: of visible messages the highest are received first
	Debounce    string          `json:"debounce,omitempty"`     // the message replaces the one of the name and this key that wasn't handed out yet
	DebounceMax time.Duration   `json:"debounce_max,omitempty"` // the message is hidden at most for so long after the first one, in nanoseconds; 0 means no bound
	Max         int             `json:"max,omitempty"`          // refuses the message if the queue has so many; 0 means that the program's bound holds
}

// SendMessageOut is the answer.
type SendMessageOut struct {
	ID queue.ID `json:"id"`
}

func sendMessage(ctx context.Context, a *greenroom.Actor, _ string, in *SendMessageIn) (*SendMessageOut, error) {
	body, err := cbor.FromJSON(in.Body)
	if err != nil {
		return nil, &Error{Code: "invalid", Message: "the body is not JSON: " + strings.TrimPrefix(err.Error(), "json: ")}
	}
	if in.Max < 0 {
		return nil, &Error{Code: "invalid", Message: "a negative max"}
	}
	q, err := a.Queue(ctx)
	if err != nil {
		return nil, err
	}
	if in.Max > 0 && q.Len() >= in.Max {
		return nil, &queue.FullError{Limit: in.Max}
	}
	m := queue.Send{Name: in.Name, Body: body, Delay: in.Delay, Key: in.Key, Priority: in.Priority}
	if in.Debounce != "" {
		m.Debounce = &queue.Debounce{Key: in.Debounce, Max: in.DebounceMax}
	}
	out := &SendMessageOut{}
	out.ID, err = q.Enqueue(ctx, m)
	return out, err
}

// DeleteMessages removes messages from the queue.
var DeleteMessages = &Verb[DeleteMessagesIn, DeleteMessagesOut]{"queue/delete", "Remove messages from the queue.", deleteMessages}

// DeleteMessagesIn is the request of DeleteMessages.
type DeleteMessagesIn struct {
	IDs   []queue.ID `json:"ids"`
	Ready bool       `json:"ready,omitempty"` // leave those that are leased or delayed by now
}

// DeleteMessagesOut is the answer.
type DeleteMessagesOut struct {
	Deleted []queue.ID `json:"deleted"` // those that were there
}

func deleteMessages(ctx context.Context, a *greenroom.Actor, _ string, in *DeleteMessagesIn) (*DeleteMessagesOut, error) {
	q, err := a.Queue(ctx)
	if err != nil {
		return nil, err
	}
	remove := q.Delete
	if in.Ready {
		remove = q.DeleteReady
	}
	deleted, err := remove(ctx, in.IDs...)
	if deleted == nil {
		deleted = []queue.ID{}
	}
	return &DeleteMessagesOut{deleted}, err
}

// RedriveMessages makes messages of dead letters again; see queue.Queue.Redrive.
var RedriveMessages = &Verb[RedriveMessagesIn, RedriveMessagesOut]{"queue/redrive", "Make messages of dead letters again.", redriveMessages}

// RedriveMessagesIn is the request of RedriveMessages.
type RedriveMessagesIn struct {
	Names []string `json:"names,omitempty"` // that the messages had before; none means all
	Limit int      `json:"limit,omitempty"` // at most so many; 0 means all
}

// RedriveMessagesOut is the answer.
type RedriveMessagesOut struct {
	Redriven int `json:"redriven"`
}

func redriveMessages(ctx context.Context, a *greenroom.Actor, _ string, in *RedriveMessagesIn) (*RedriveMessagesOut, error) {
	q, err := a.Queue(ctx)
	if err != nil {
		return nil, err
	}
	n, err := q.Redrive(ctx, &queue.RedriveOptions{Names: in.Names, Limit: in.Limit})
	if invalid := (*queue.InvalidError)(nil); errors.As(err, &invalid) {
		err = &Error{Code: "invalid", Message: strings.TrimPrefix(err.Error(), "queue: ")}
	}
	if err != nil && n > 0 {
		err = say(err, "%d dead letters are messages again, and then: %v", n, err)
	}
	return &RedriveMessagesOut{n}, err
}
