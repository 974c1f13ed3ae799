package wasm

import (
	"errors"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/abi"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/queue"
)

// queueFunctions are those for the actor's queue, and for those of others.
var queueFunctions = []function{
	{name: "queue_send", keep: true, body: with(queueSend)},
	{name: "send", keep: true, body: with(send)},
	{name: "queue_receive", keep: true, body: with(queueReceive)},
	{name: "queue_complete", keep: true, body: with(queueComplete)},
	{name: "queue_nack", keep: true, body: with(func(c *call, m *abi.Return) (any, error) {
		return nil, giveBack(c, m.Receipt, m.Delay, nil)
	})},
	{name: "queue_fail", keep: true, body: with(func(c *call, m *abi.Failed) (any, error) {
		return nil, giveBack(c, m.Receipt, m.Delay, reason(m))
	})},
	{name: "queue_bury", keep: true, body: with(func(c *call, m *abi.Failed) (any, error) {
		return nil, giveBack(c, m.Receipt, m.Delay, queue.Permanent(errkind.WithCode(m.Code, errors.New(m.Message))))
	})},
	{name: "queue_len", body: nothing(queueLen)},
}

// duration returns a length of time in milliseconds, the longest there is if it is longer
// than that.
func duration(ms abi.Int) time.Duration {
	const most = abi.Int(1<<63-1) / abi.Int(time.Millisecond)
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}

// queueSend puts a message into the actor's own queue, and returns the id that it has if the
// turn lands.
func queueSend(c *call, s *abi.Send) (any, error) {
	id, err := c.host.Enqueue(toSend(s))
	return abi.Int(id), err
}

// send puts a message into the actor's outbox. It doesn't return an id: the other queue
// assigns one when the message arrives.
func send(c *call, l *abi.Letter) (any, error) {
	return nil, c.host.Send(host.Address(l.To), toSend(&l.Message))
}

// toSend returns a message as the queue takes it.
func toSend(s *abi.Send) queue.Send {
	m := queue.Send{Name: s.Name, Body: queue.Raw(s.Body), Delay: duration(s.Delay), Key: s.Key, Priority: s.Priority}
	if s.Debounce != "" {
		m.Debounce = &queue.Debounce{Key: s.Debounce, Max: duration(s.DebounceMax)}
	}
	return m
}

// maxMessage is how large a message is taken to be: the default limit of values, and a
// little.
const maxMessage = 129 << 10

// queueReceive returns no more messages than fit into a result, if they are no larger
// than maxMessage.
func queueReceive(c *call, r *abi.Receive) (any, error) {
	fit := max(c.module.opts.MaxBytes/maxMessage, 1)
	msgs, err := c.host.ReceiveWith(&queue.ReceiveOptions{
		Names: r.Names, Count: min(max(r.Count, 1), fit), Visibility: duration(max(r.Visibility, 0)), AtMostOnce: r.AtMostOnce,
	})
	if err != nil {
		return nil, err
	}
	all := make([]*abi.Message, len(msgs))
	for i, m := range msgs {
		all[i] = message(m)
	}
	return all, nil
}

// message returns a message as modules get it.
func message(m *greenroom.Message) *abi.Message {
	r := &abi.Message{
		ID: abi.Int(m.ID), Name: m.Name, Body: abi.Raw(m.Body), Created: abi.Int(m.Created.UnixMilli()), Deliveries: m.Deliveries, Priority: m.Priority,
	}
	if !m.Until.IsZero() {
		r.Receipt = m.Receipt().String()
	}
	return r
}

func queueComplete(c *call, m *abi.Completion) (any, error) {
	r, err := queue.ParseReceipt(m.Receipt)
	if err != nil {
		return nil, badArgument(err)
	}
	return nil, c.host.Complete(r, host.Raw(m.Response))
}

// reason is what went wrong with a message, nil if the module says neither a code nor a text.
func reason(m *abi.Failed) error {
	if m.Message == "" && m.Code == "" {
		return nil
	}
	return errkind.WithCode(m.Code, errors.New(m.Message))
}

// giveBack gives a message back, with what went wrong.
func giveBack(c *call, receipt string, delay abi.Int, why error) error {
	r, err := queue.ParseReceipt(receipt)
	if err != nil {
		return badArgument(err)
	}
	return c.host.Nack(r, duration(delay), why)
}

func queueLen(c *call) (any, error) { return c.host.Messages() }
