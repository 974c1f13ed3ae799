package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/part"

	"github.com/cockroachdb/datadriven"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// TestWorkflow runs the commands in testdata/workflow, each file in an empty folder.
// "greenroom" is as in TestCommands; "run ACTOR INPUT" starts the workflow of an actor of
// the store data and runs it as far as it comes, and writes its state; "put ACTOR HEX"
// stores the input, which is in hexadecimal, under a key of the workflow.
func TestWorkflow(t *testing.T) {
	runFiles(t, "workflow", func() directives {
		var ids atomic.Int64
		return func(t *testing.T, d *datadriven.TestData) (string, bool) {
			switch d.Cmd {
			case "run":
				return runWorkflow(t, d.CmdArgs[0].String(), d.CmdArgs[1].String(), &ids), true
			case "put":
				plantWorkflow(t, d)
				return "", true
			}
			return "", false
		}
	})
}

// TestWorkflowListDamage lists what there is beside an actor with a damaged head, whether
// by id or by name, and names that one.
func TestWorkflowListDamage(t *testing.T) {
	p := newPlanter(t)
	t.Chdir(filepath.Dir(p.dir))
	var ids atomic.Int64
	for _, actor := range []string{"a", "b", "c"} {
		runWorkflow(t, "flow-"+actor, "done", &ids)
	}
	p.rows(idOf("flow-b"), func(e kv.Entry) []kv.Op {
		if !bytes.HasPrefix(e.Key, []byte("\x02greenroom\x00")) || bytes.Contains(e.Value, idOf("flow-b")) || string(e.Value) == "flow-b" {
			return nil
		}
		return []kv.Op{kv.Set(e.Key, e.Value[:min(10, len(e.Value))])}
	})
	for _, args := range [][]string{nil, {"--named", "flow-"}} {
		r := program(t.Context(), strings.NewReader(""), append([]string{"workflow", "ls", p.dir}, args...)...)
		if r.code != serving.ExitOK || r.stderr != "" {
			t.Errorf("%q: status %d, %q", args, r.code, r.stderr)
		}
		for _, want := range []string{"flow-a\t", "flow-c\t", "\t" + actorstore.IDFromName("flow-b").String() + "\t\t\t\t\tdamaged: "} {
			if strings.Count(r.stdout, want) != 1 {
				t.Errorf("%q: not one %q in\n%s", args, want, r.stdout)
			}
		}
		if n := strings.Count(r.stdout, "\n"); n != 3 {
			t.Errorf("%q: %d lines:\n%s", args, n, r.stdout)
		}
	}
}

// plantWorkflow stores a value past package workflow.
func plantWorkflow(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	key, err := hex.DecodeString(d.CmdArgs[1].String())
	value, verr := hex.DecodeString(d.Input)
	if err = errors.Join(err, verr); err == nil {
		err = ownBelow(t.Context(), target{url: "data", actor: d.CmdArgs[0].String()}, func(a *actorstore.Actor) error {
			return a.Put(context.Background(), key, value)
		})
	}
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
}

// runWorkflow returns the state, on a line.
func runWorkflow(t *testing.T, actor, input string, ids *atomic.Int64) (state string) {
	t.Helper()
	err := ownBelow(t.Context(), target{url: "data", actor: actor, create: true}, func(a *actorstore.Actor) error {
		quiet := slog.New(slog.DiscardHandler)
		q, err := queue.Open(t.Context(), a, &queue.Options{Env: part.Env{Logger: quiet}})
		if err != nil {
			return err
		}
		w, err := workflow.Open(t.Context(), a, order, &workflow.Options{Queue: q, Env: part.Env{Logger: quiet}, ShortWait: -1,
			NewID: func() string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", ids.Add(1)) }})
		if err != nil {
			return errors.Join(err, q.Close())
		}
		err = w.Start(t.Context(), input)
		if err == nil {
			var s workflow.Status
			s, err = w.Run(t.Context())
			state = s.State.String() + "\n"
		}
		return errors.Join(err, w.Close(), q.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// order is a workflow with most of what there is in a history. Its input says where it
// stops.
func order(c *workflow.Context, in string) (map[string]any, error) {
	workflow.Version(c, "code", 2)
	_, err := workflow.StepWith(c, "charge", &workflow.StepOptions{Backoff: time.Hour, MaxBackoff: time.Hour}, func(context.Context) (map[string]any, error) {
		switch in {
		case "declined":
			return nil, workflow.Permanent(errors.New("card declined"))
		case "busy":
			return nil, errors.New("bank is busy")
		case "retried":
			if _, err := os.Stat("paid"); err != nil {
				return nil, workflow.Permanent(err)
			}
		}
		return map[string]any{"receipt": 17}, nil
	})
	if err != nil {
		return nil, err
	}
	picked, err := workflow.Loop(c, "pick", 0, func(c *workflow.Context, n *int) (int, bool, error) {
		err := workflow.Do(c, "shelf", func(context.Context) error { return nil })
		*n++
		return *n, *n == 2, err
	})
	if err != nil {
		return nil, err
	}
	if _, err := workflow.Join(c, "ship",
		workflow.Branch[string]{Name: "mail", Run: func(c *workflow.Context) (string, error) {
			return workflow.Step(c, "a letter/now", func(context.Context) (string, error) { return "sent", nil })
		}},
		workflow.Branch[string]{Name: "print", Run: func(*workflow.Context) (string, error) { return "", errors.New("no paper") }},
	); err == nil {
		return nil, errors.New("the printer has paper")
	}
	switch in {
	case "paused":
		return nil, workflow.DoWith(c, "print", &workflow.StepOptions{MaxAttempts: 1, Pause: true}, func(context.Context) error { return errors.New("no\nink") })
	case "asks":
		_, err := workflow.ReceiveWith[int](c, "decision", &workflow.ReceiveOptions{Names: []string{"yes", "no"}, Until: time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)})
		return nil, err
	case "sleeps":
		c.SleepUntil("until later", time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC))
	}
	return map[string]any{"picked": picked}, nil
}
