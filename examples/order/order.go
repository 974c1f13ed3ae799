package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/workflow"
)

// An Order is what a customer wants.
type Order struct {
	Name  string `json:"name"`
	Item  string `json:"item"`
	Cents int    `json:"cents"`
}

// What can go wrong with an order for good.
var (
	errRejected = errors.New("not approved")
	errExtinct  = errors.New("can't be delivered")
	errNoReply  = errors.New("nobody answered")
)

// sentinels are how these errors are recorded.
var sentinels = map[string]error{"rejected": errRejected, "extinct": errExtinct, "no_reply": errNoReply}

const (
	large = 10_000 // cents from which on an order needs an approval
	reply = 14 * 24 * time.Hour
)

// order is the workflow of an order.
func (b *bank) order(c *workflow.Context, o Order) (string, error) {
	fmt.Println("works", o.Name)
	c.RollbackCheckpoint("money is taken from here on")
	charge, err := workflow.StepWith(c, "charge", &workflow.StepOptions{
		MaxAttempts: -1, Backoff: 10 * time.Millisecond, Timeout: 20 * time.Second,
		Undo: workflow.UndoStep(func(ctx context.Context, charge string) error {
			return b.book("back-"+charge, "pay-back", o)
		}),
	}, func(ctx context.Context) (string, error) {
		info, _ := workflow.StepInfoOf(ctx)
		if info.Attempt == 1 { // the line is bad, and works the second time
			return "", errors.New("no connection")
		}
		return info.ID, b.book(info.ID, "charge", o)
	})
	if err != nil {
		return "", err
	}
	fmt.Println("charged", o.Name)
	if o.Cents >= large {
		if err := approved(c); err != nil {
			return "", err
		}
	}
	err = workflow.DoWith(c, "deliver", &workflow.StepOptions{MaxAttempts: -1}, func(ctx context.Context) error {
		info, _ := workflow.StepInfoOf(ctx)
		if o.Item == "dodo" {
			return workflow.Permanent(errExtinct)
		}
		return b.book(info.ID, "deliver", o)
	})
	if errors.Is(err, errExtinct) { // in a later run, too
		return "", errExtinct
	}
	if err != nil {
		return "", err
	}
	fmt.Println("delivered", o.Name)
	return greenroom.StepTx(c, "file", func(tx *greenroom.Tx) (string, error) {
		// It lands with the record that the step is done: exactly once.
		return fmt.Sprintf("%s for %d.%02d", o.Item, o.Cents/100, o.Cents%100), tx.Put([]byte("receipt"), []byte(charge))
	})
}

// approved waits for a human being to say yes.
func approved(c *workflow.Context) error {
	m, err := workflow.ReceiveWith[any](c, "approval", &workflow.ReceiveOptions{Names: []string{"approve", "reject"}, Timeout: reply})
	switch {
	case errors.Is(err, workflow.ErrTimedOut):
		return errNoReply
	case err != nil:
		return err
	case m.Name == "reject":
		return errRejected
	}
	return nil
}
