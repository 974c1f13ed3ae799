// Command agent is assistants that remember, and that ask before they do what can't be
// undone. It shows what an actor is good for that has a database, a queue and a workflow.
//
//	go run ./examples/agent FOLDER
//
// Then type commands, one a line; ada is the name of an assistant, which exists from the
// first use of that name:
//
//	learn ada bob is at bob@example.org     she keeps that in mind
//	recall ada bob                          what she knows about bob
//	task ada where is bob                   she looks it up
//	task ada add 2 3 4                      she calculates
//	task ada mail bob the report            she asks, and waits, for weeks if she must:
//	yes ada 3                               or: no ada 3; the number is that of the task
//	quit
//
// What an assistant knows is in a full-text index of SQLite (FTS5), in her own database. What
// she does is a workflow: a task is a message of her queue; she looks up what she knows
// about it, has a model say what is to be done, waits for a message that allows it, does
// it with a tool, which is tried again when it fails, and remembers what came of it.
//
// It may be killed at any moment; started again, each assistant goes on where she was,
// mails nothing twice, and remembers everything once. No model is called: that in
// model.go is a few rules, so that the example runs without a network and does the same
// each time. A real one takes its place in a step as it is.
//
// The mails are files in FOLDER/mails.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: agent FOLDER")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := serve(ctx, os.Args[1], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

// serve opens the store in a folder, has the assistants go on with what they were doing,
// and does what the lines of in say, until it ends or ctx is over.
func serve(ctx context.Context, folder string, in io.Reader, out io.Writer) (err error) {
	engine, err := pebblekv.Open(filepath.Join(folder, "store"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	o := &office{mails: filepath.Join(folder, "mails"), out: out}
	if err := os.MkdirAll(o.mails, 0o755); err != nil {
		return err
	}
	// The host knows which assistants have something to do, and wakes them.
	o.host, err = host.Open(ctx, engine, []*host.Type{o.assistant()}, &host.Options{
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.host.Close(context.WithoutCancel(ctx))) }()
	lines := bufio.NewScanner(in)
	for ctx.Err() == nil && lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		if words[0] == "quit" {
			return nil
		}
		if err := o.obey(ctx, words); err != nil {
			o.say("error %s", host.Message(err))
		}
	}
	return lines.Err()
}

// obey does what one line says.
func (o *office) obey(ctx context.Context, words []string) error {
	if len(words) < 3 {
		return fmt.Errorf("what is %q?", strings.Join(words, " "))
	}
	name, text := words[1], strings.Join(words[2:], " ")
	switch words[0] {
	case "learn":
		if err := o.learn(ctx, name, text); err != nil {
			return err
		}
		o.say("learned %s", name)
	case "recall":
		facts, err := o.recall(ctx, name, text)
		if err != nil {
			return err
		}
		for _, fact := range facts {
			o.say("knows %s %s", name, fact)
		}
	case "task":
		n, err := o.give(ctx, name, text)
		if err != nil {
			return err
		}
		o.say("given %s %d", name, n)
	case "yes", "no":
		if err := o.decide(ctx, name, text, words[0] == "yes"); err != nil {
			return err
		}
		o.say("told %s %s", name, text)
	default:
		return fmt.Errorf("what is %q?", words[0])
	}
	return nil
}
