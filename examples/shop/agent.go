package main

import (
	"context"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/workflow"
)

// A model answers a question, and tells each word as it comes.
type model func(ctx context.Context, question string, tell func(word string) error) (answer string, err error)

// ask has the agent answer a question, the one of its life: each question is an actor. Clients get each "word" of the answer.
var ask = host.NewCommand("ask", func(c *host.Context, question string) error { return c.StartWorkflow(question) })

// answer returns the answer, "" until it is there.
var answer = host.NewAction("answer", func(c *host.Context, _ struct{}) (string, error) { return greenroom.State[string](c) })

func agents(think model) *host.Type {
	return &host.Type{Name: "agent", Actions: []host.AnyAction{ask, answer}, Workflow: host.NewWorkflow(func(c *workflow.Context, question string) (string, error) {
		text, err := workflow.StepWith(c, "think", &workflow.StepOptions{Timeout: -1}, func(ctx context.Context) (string, error) {
			return think(ctx, question, func(word string) error {
				return host.Turn(ctx, func(c *host.Context) error { return c.Broadcast("word", word) })
			})
		})
		if err != nil {
			return "", err
		}
		return host.StepTurn(c, "keep", func(c *host.Context) (string, error) { return text, greenroom.SetState(c, text) })
	}, nil)}
}
