package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/queue"
)

// cycleCommits is how many engine commits a cycle takes, cycleBody the size of a body.
const (
	cycleCommits = 3
	cycleBody    = 100
)

// cycleJob is queue/cycle: a message is enqueued, received and completed, three durable
// commits.
func cycleJob() job {
	return job{"queue/cycle", "cycle/s", cycleCommits, 8, beginCycles}
}

// cycles is an actor with a queue.
type cycles struct {
	queue *queue.Queue
	body  queue.Raw
}

func beginCycles(ctx context.Context, a *actorstore.Actor, i int) (shift, error) {
	q, err := queue.Open(ctx, a, &queue.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	// A byte string in CBOR, made of noise.
	body := append(queue.Raw{0x58, cycleBody}, make([]byte, cycleBody)...)
	noise(newRand(uint64(i)), body[2:])
	return &cycles{q, body}, nil
}

func (c *cycles) work(ctx context.Context, more func() bool) error {
	return repeat(more, func() error { return c.cycle(ctx) })
}

func (c *cycles) cycle(ctx context.Context) error {
	if _, err := c.queue.Enqueue(ctx, queue.Send{Name: "job", Body: c.body}); err != nil {
		return err
	}
	msgs, err := c.queue.TryReceive(ctx, nil)
	if err != nil {
		return err
	}
	if len(msgs) != 1 {
		return fmt.Errorf("received %d messages", len(msgs))
	}
	return msgs[0].Complete(ctx, nil)
}

func (c *cycles) close() error { return c.queue.Close() }
