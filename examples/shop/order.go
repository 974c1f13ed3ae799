package main

import (
	"context"
	"errors"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// An Order is what a customer buys. Each order is an actor, and its workflow is what becomes of it.
type Order struct {
	Customer string `json:"customer"`
	Item     string `json:"item"`
	Cents    int    `json:"cents"`
}

// A world is what the shop asks for outside of its store. A request that comes again with the same key is not done again.
type world interface {
	Charge(ctx context.Context, key string, o Order) (payment string, err error)
	Refund(ctx context.Context, payment string) error
	Pack(ctx context.Context, key string, o Order) (parcel string, err error)
	Unpack(ctx context.Context, parcel string) error
}

// patience is how long a parcel may wait for its carrier.
const patience = 7 * 24 * time.Hour

var place = host.NewCommand("place", func(c *host.Context, o Order) error { return c.StartWorkflow(o) })

// shipped says that the carrier has the parcel. Said twice it is one message.
var shipped = host.NewCommand("shipped", func(c *host.Context, tracking string) error {
	_, err := c.Enqueue(queue.Send{Name: "shipped", Body: tracking, Key: "shipped"})
	return err
})

// status returns how far the order is, "" before it is packed, or why it has failed.
var status = host.NewAction("status", func(c *host.Context, _ struct{}) (string, error) {
	w, err := c.Workflow()
	if err != nil {
		return "", err
	}
	if f := w.Status().Failure; f != nil {
		return "failed: " + f.Message, nil
	}
	return greenroom.State[string](c)
})

func orders(w world) *host.Type {
	return &host.Type{
		Name: "order", Actions: []host.AnyAction{place, shipped, status},
		Workflow: host.NewWorkflow(func(c *workflow.Context, o Order) (string, error) { return fulfil(c, w, o) }, nil),
	}
}

// fulfil returns the number by which the parcel is tracked. If it fails, what was done is undone, the last step first.
func fulfil(c *workflow.Context, w world, o Order) (tracking string, err error) {
	c.RollbackCheckpoint("order")
	_, err = workflow.StepWith(c, "charge", &workflow.StepOptions{Undo: workflow.UndoStep(w.Refund)}, do(w.Charge, o))
	if err != nil {
		return "", err
	}
	parcel, err := workflow.StepWith(c, "pack", &workflow.StepOptions{Undo: workflow.UndoStep(w.Unpack)}, do(w.Pack, o))
	if err != nil {
		return "", err
	}
	// The state changes with the record of the step: exactly once.
	_, err = host.StepTurn(c, "packed", func(c *host.Context) (string, error) { return "", greenroom.SetState(c, "packed: "+parcel) })
	if err != nil {
		return "", err
	}
	m, err := workflow.ReceiveWith[string](c, "carrier", &workflow.ReceiveOptions{Names: []string{"shipped"}, Timeout: patience})
	if err != nil {
		return "", err // workflow.ErrTimedOut: it hasn't come
	}
	return host.StepTurn(c, "shipped", func(c *host.Context) (string, error) {
		err := c.Send(host.Address{Type: "mailbox", Key: "shop"}, queue.Send{Name: "mail", Body: Mail{o.Customer, o.Item + " is on its way: " + m.Body}})
		return m.Body, errors.Join(err, greenroom.SetState(c, "shipped: "+m.Body))
	})
}

// do asks the world with the ID of the step, which is the same for all attempts.
func do(ask func(ctx context.Context, key string, o Order) (string, error), o Order) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		step, _ := workflow.StepInfoOf(ctx)
		return ask(ctx, step.ID, o)
	}
}
