package main

import (
	"context"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/queue"
)

// A Mail is a message "mail" of a mailbox, which sends it.
type Mail struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

// A Returned is a mail that couldn't be sent, and why.
type Returned struct {
	Mail
	Reason string `json:"reason"`
}

// returned returns the newest 100 mails that couldn't be sent.
var returned = host.NewAction("returned", func(c *host.Context, _ struct{}) ([]Returned, error) { return greenroom.State[[]Returned](c) })

// mailboxes send with five attempts, two mails at a time. An error that queue.Permanent has marked is the last one.
func mailboxes(send func(ctx context.Context, m Mail) error) *host.Type {
	return &host.Type{
		Name: "mailbox", Actions: []host.AnyAction{returned},
		Queue: greenroom.QueueOptions{MaxReceive: 5},
		Work: &host.Work{Names: []string{"mail"}, Concurrency: 2, Do: func(ctx context.Context, m *queue.Message) (func(*host.Context) error, error) {
			var mail Mail
			if err := m.Decode(&mail); err != nil {
				return nil, queue.Permanent(err)
			}
			return nil, send(ctx, mail)
		}},
		MessageNames: []string{"mail.dlq"}, // the dead letters of "mail"
		Message: func(c *host.Context, m *greenroom.Message) error {
			r := Returned{Reason: m.Failure.Text}
			if err := m.Decode(&r.Mail); err != nil {
				return err
			}
			return greenroom.Mutate(c, func(all *[]Returned) error { *all = append((*all)[max(0, len(*all)-99):], r); return nil })
		},
	}
}
