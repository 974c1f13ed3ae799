package guest

import (
	"errors"
	"time"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// Queue is the actor's queue, as a turn sees it: what the turn does lands with it.
type Queue struct{}

// Queue returns the actor's queue.
func (c *Context) Queue() Queue { return Queue{} }

// A Send is a message to be enqueued: see queue.Send.
type Send struct {
	Name  string
	Body  any
	Delay time.Duration // to the millisecond
	Key   string

	Priority int // from -100 to 100: of visible messages the highest come first

	// Debounce, unless it is "", is a key: the message replaces the one before it of the same name and key that wasn't handed out
	// yet. DebounceMax is how long after that was enqueued the message is hidden at most, to the millisecond; 0 is for no bound. See queue.Debounce.
	Debounce    string
	DebounceMax time.Duration
}

// Send puts a message into the queue, and returns the ID that it will have.
func (Queue) Send(s Send) (id int64, err error) {
	m, err := s.message()
	if err != nil {
		return 0, err
	}
	var n abi.Int
	err = call(queueSend, m, &n)
	return int64(n), err
}

// Send puts a message into the queue of another actor, which is created if it doesn't
// exist, and woken. It is sent when the turn is durable, and not at all if the turn
// doesn't land; from then on it arrives exactly once, unless it takes more than a day: see
// host.Context.Send. What an actor sends to itself is put into its queue by the turn, as
// Queue.Send does.
//
// The codes of errors are "bad_address", "no_such_type", "no_such_actor", "outbox_full",
// "not_allowed", "too_fast", "too_many_generations", and those of the queue. They say that nothing is sent, also if the turn lands.
func (c *Context) Send(to Address, s Send) error {
	m, err := s.message()
	if err != nil {
		return err
	}
	return call(send, abi.Letter{To: abi.Address{Type: to.Type, Key: to.Key}, Message: m}, nil)
}

// message returns s as the host takes it.
func (s *Send) message() (abi.Send, error) {
	body, err := encode(s.Body)
	return abi.Send{Name: s.Name, Body: body, Delay: millis(s.Delay), Key: s.Key, Priority: s.Priority,
		Debounce: s.Debounce, DebounceMax: millis(s.DebounceMax)}, err
}

func millis(d time.Duration) abi.Int { return abi.Int(d.Milliseconds()) }

// A Message is one that was received.
type Message struct {
	ID         int64
	Name       string
	Body       Raw
	Created    time.Time
	Deliveries int    // how often it was handed out, this time included
	Receipt    string // what entitles to settle it; "" if it was received at most once
	Priority   int
}

func messageOf(m *abi.Message) *Message {
	return &Message{int64(m.ID), m.Name, Raw(m.Body), time.UnixMilli(int64(m.Created)), int(m.Deliveries), m.Receipt, m.Priority}
}

// Decode decodes the body into what v points to.
func (m *Message) Decode(v any) error { return m.Body.Decode(v) }

// ReceiveOptions say what is received, and how. The zero value is one message of any
// name, under a lease.
type ReceiveOptions struct {
	Names      []string      // none means all
	Count      int           // the largest number of messages; 0 means 1
	Visibility time.Duration // how long the lease lasts; 0 means as the host says
	AtMostOnce bool          // the messages are gone when the turn lands
}

// Receive takes messages: those that are visible now, as many as fit into one result, and
// none if there are none.
func (Queue) Receive(opts ReceiveOptions) ([]*Message, error) {
	var got []*abi.Message
	if err := call(queueReceive, abi.Receive{
		Names: opts.Names, Count: opts.Count, Visibility: millis(opts.Visibility), AtMostOnce: opts.AtMostOnce,
	}, &got); err != nil {
		return nil, err
	}
	var all []*Message
	for _, m := range got {
		all = append(all, messageOf(m))
	}
	return all, nil
}

// Complete removes a message that was received, and gives the response to the caller that
// waits for it.
func (Queue) Complete(receipt string, response any) error {
	r, err := encode(response)
	if err != nil {
		return err
	}
	return call(queueComplete, abi.Completion{Receipt: receipt, Response: r}, nil)
}

// Nack gives a message that was received back, to be visible after the delay. why says what went wrong, and stays with the message: its text, and the
// Code of an *Error; nil if nothing did. If the *Error is Permanent, the message becomes a dead letter, without a delay.
func (Queue) Nack(receipt string, delay time.Duration, why error) error {
	if why == nil {
		return call(queueNack, abi.Return{Receipt: receipt, Delay: millis(delay)}, nil)
	}
	f := abi.Failed{Receipt: receipt, Delay: millis(delay), Message: why.Error()}
	var e *Error
	if errors.As(why, &e) {
		f.Code = e.Code
		if e.Permanent {
			return call(queueBury, f, nil)
		}
	}
	return call(queueFail, f, nil)
}

// Len returns how many messages there are, without those that the turn has sent.
func (Queue) Len() (n int, err error) {
	err = call(queueLen, nil, &n)
	return n, err
}
