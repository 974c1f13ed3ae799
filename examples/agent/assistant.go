package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// An office is where assistants work.
type office struct {
	host  *host.Host
	mails string // folder

	mu  sync.Mutex
	out io.Writer // +checklocks:mu
}

func (o *office) say(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.out, format+"\n", args...)
}

// patience is how long an assistant waits for an answer.
const patience = 14 * 24 * time.Hour

// assistant is the type of the actors.
func (o *office) assistant() *host.Type {
	return &host.Type{
		Name: "assistant",
		// The first turn of her life makes the memory, and starts the workflow: both or none.
		Create: func(c *host.Context) error {
			if _, err := c.Exec("create virtual table memory using fts5(fact, tokenize = porter)"); err != nil {
				return err
			}
			return c.StartWorkflow(nil)
		},
		Actions:  []host.AnyAction{learn, recall},
		Workflow: host.NewWorkflow(o.work, &greenroom.WorkflowOptions{Errors: map[string]error{"number": errNumber}}),
	}
}

// What people tell assistants, and ask them.
var (
	learn  = host.NewCommand("learn", keep)
	recall = host.NewAction("recall", find)
)

// keep remembers a fact, with the turn.
func keep(c *host.Context, fact string) error {
	_, err := c.Exec("insert into memory values (?)", fact)
	return err
}

// find returns what the assistant knows about a text, the best three facts.
func find(c *host.Context, text string) (facts []string, err error) {
	match := query(text)
	if match == "" {
		return nil, nil
	}
	return greenroom.Select[string](c, "select fact from memory where memory match ? order by rank, rowid limit 3", match)
}

// work is the workflow of an assistant: one task after the other, for ever.
func (o *office) work(c *workflow.Context, _ struct{}) (struct{}, error) {
	return workflow.Loop(c, "tasks", struct{}{}, func(c *workflow.Context, _ *struct{}) (none struct{}, done bool, err error) {
		m, err := workflow.ReceiveWith[string](c, "task", &workflow.ReceiveOptions{Names: []string{"task"}})
		if err != nil {
			return none, false, err
		}
		return none, false, o.task(c, fmt.Sprint(m.ID), m.Body)
	})
}

// task does one task. Each step is done once, and what came of it is recorded: after a
// restart the workflow goes on with the one that isn't.
func (o *office) task(c *workflow.Context, id, task string) error {
	facts, err := host.StepTurn(c, "recall", func(c *host.Context) ([]string, error) { return find(c, task) })
	if err != nil {
		return err
	}
	p, err := workflow.Step(c, "think", func(context.Context) (plan, error) { return think(task, facts), nil })
	if err != nil {
		return err
	}
	outcome, err := o.carryOut(c, id, p)
	if err != nil {
		return err
	}
	// What is remembered lands with the record that the step is done: exactly once.
	_, err = host.StepTurn(c, "remember", func(c *host.Context) (bool, error) {
		c.AfterCommit(func() { o.say("done %s %s %s", c.Address().Key, id, outcome) })
		return true, keep(c, "task: "+task+": "+outcome)
	})
	return err
}

// carryOut does what was planned, if it is allowed, and returns what came of it.
func (o *office) carryOut(c *workflow.Context, id string, p plan) (string, error) {
	if p.Risky {
		allowed, err := o.ask(c, id, p)
		if err != nil || !allowed {
			return "not allowed", err
		}
	}
	untilDone := &workflow.StepOptions{MaxAttempts: -1, Backoff: 10 * time.Millisecond}
	outcome, err := workflow.StepWith(c, "tool", untilDone, func(ctx context.Context) (string, error) {
		info, _ := workflow.StepInfoOf(ctx)
		switch p.Tool {
		case "add":
			total, err := sum(p.Text)
			return total, workflow.Permanent(err)
		case "mail":
			if info.Attempt == 1 { // the line is bad, and works the second time
				return "", errors.New("no connection")
			}
			return "mailed", o.mail(info.ID, p)
		}
		return p.Text, nil
	})
	if errors.Is(err, errNumber) { // in a later run, too
		return errNumber.Error(), nil
	}
	return outcome, err
}

// ask waits for a human being. The name of the message has the number of the task, so that
// no answer is taken for one to another question.
func (o *office) ask(c *workflow.Context, id string, p plan) (allowed bool, err error) {
	_, err = host.StepTurn(c, "ask", func(c *host.Context) (bool, error) {
		c.AfterCommit(func() { o.say("asks %s %s %s %s: %s", c.Address().Key, id, p.Tool, p.To, p.Text) })
		return true, nil
	})
	if err != nil {
		return false, err
	}
	m, err := workflow.ReceiveWith[bool](c, "answer", &workflow.ReceiveOptions{Names: []string{answerTo(id)}, Timeout: patience})
	switch {
	case errors.Is(err, workflow.ErrTimedOut):
		return false, nil
	case err != nil:
		return false, err
	}
	return m.Body, nil
}

func answerTo(id string) string { return "answer " + id }

// mail is a tool: the world outside. It knows each mail by a key, and one that comes again
// is not sent again.
func (o *office) mail(key string, p plan) error {
	file := filepath.Join(o.mails, key)
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(file+".part", []byte(p.To+": "+p.Text+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".part", file)
}

func (o *office) at(name string) host.Address { return host.Address{Type: "assistant", Key: name} }

// learn, recall, give and decide are what people do with assistants.

func (o *office) learn(ctx context.Context, name, fact string) error {
	return learn.Call(ctx, o.host, name, fact)
}

func (o *office) recall(ctx context.Context, name, text string) ([]string, error) {
	return recall.Call(ctx, o.host, name, text)
}

// give hands over a task and returns its number. The key makes one of a task that is given
// twice within minutes.
func (o *office) give(ctx context.Context, name, task string) (queue.ID, error) {
	return o.host.Send(ctx, o.at(name), queue.Send{Name: "task", Body: task, Key: task})
}

func (o *office) decide(ctx context.Context, name, id string, yes bool) error {
	_, err := o.host.Send(ctx, o.at(name), queue.Send{Name: answerTo(id), Body: yes, Key: "answer"})
	return err
}
