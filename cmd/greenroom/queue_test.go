package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/part"
	"github.com/greenroomdb/greenroom/queue"
)

// TestQueueUnreadable lists what can't be read, and never shows it as the next message.
func TestQueueUnreadable(t *testing.T) {
	store := t.TempDir() + "/data"
	must(t, "put", store, "shop", "k", "v")
	must(t, "queue", "send", store, "shop", "order", "1")
	err := ownBelow(t.Context(), target{url: store, actor: "shop"}, func(a *actorstore.Actor) error {
		return a.Put(context.Background(), actorstore.LayoutGreenroom.AppendQueueMessage(nil, 1), []byte{4, 0, 9})
	})
	if err != nil {
		t.Fatal(err)
	}
	must(t, "queue", "send", store, "shop", "order", "2")
	lines := strings.Split(must(t, "queue", "ls", store, "shop"), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "1\t\t\t\t0\t3\t\tbare: malformed") || !strings.HasPrefix(lines[1], "2\torder\tready") {
		t.Errorf("got %q", lines)
	}
	if got := must(t, "queue", "peek", store, "shop", "--limit", "0"); !strings.HasPrefix(got, "2\torder") {
		t.Errorf("got %q", got)
	}
	if got := must(t, "queue", "stats", store, "shop"); !strings.HasPrefix(got, "\t1\t0\t0\t0\t1\t3\t\t0\n") {
		t.Errorf("got %q", got)
	}
}

// TestQueueFailed runs the commands in testdata/queue. "greenroom" is as in TestCommands; "dead NAME" makes a dead letter in the
// actor shop of the store data, of a message from the actor mill/1 whose handler failed twice with the error in the input.
func TestQueueFailed(t *testing.T) {
	runFiles(t, "queue", func() directives {
		return func(t *testing.T, d *datadriven.TestData) (string, bool) {
			if d.Cmd != "dead" {
				return "", false
			}
			makeDead(t, d.CmdArgs[0].Key, d.Input)
			return "", true
		}
	})
}

func makeDead(t *testing.T, name, text string) {
	t.Helper()
	err := ownBelow(t.Context(), target{url: "data", actor: "shop"}, func(a *actorstore.Actor) error {
		q, err := queue.Open(t.Context(), a, &queue.Options{MaxReceive: 2})
		if err != nil {
			return err
		}
		_, err = q.Enqueue(t.Context(), queue.Send{Name: name, Body: 7, From: "mill/1"})
		for range 2 {
			msgs, rerr := q.TryReceive(t.Context(), &queue.ReceiveOptions{Names: []string{name}})
			if err = errors.Join(err, rerr); err == nil {
				err = msgs[0].Nack(t.Context(), 0, errkind.WithCode("sold_out", errors.New(text)))
			}
		}
		return errors.Join(err, q.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBodyCell(t *testing.T) {
	for _, c := range []struct {
		body queue.Raw
		want string
		kind cellKind
	}{
		{queue.Raw{0xf7}, "null", cellJSON},
		{queue.Raw{0xf6}, "null", cellJSON},
		{queue.Raw{0x42, 0, 1}, `"AAE="`, cellJSON},
		{queue.Raw{0xb9, 0, 1, 0x61, 'a', 1}, `{"a":1}`, cellJSON},
		{queue.Raw{0xff}, "\xff", cellBlob},
	} {
		if got := bodyCell(c.body); string(got.text) != c.want || got.kind != c.kind {
			t.Errorf("%x: got %q of kind %d, want %q", []byte(c.body), got.text, got.kind, c.want)
		}
	}
}

// TestPeekBeyondJSON tells a body that JSON can't say from the text that looks like it.
func TestPeekBeyondJSON(t *testing.T) {
	store := t.TempDir() + "/data"
	must(t, "put", store, "shop", "k", "v")
	err := ownBelow(t.Context(), target{url: store, actor: "shop"}, func(a *actorstore.Actor) error {
		q, err := queue.Open(t.Context(), a, nil)
		if err != nil {
			return err
		}
		_, err = q.EnqueueAll(t.Context(), []queue.Send{{Body: queue.Raw{0xf9, 0x7e, 0}}, {Body: "X'F97E00'"}})
		return errors.Join(err, q.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"peek", store, "shop", "--limit", "0"}, {"drain", store, "shop"}} {
		got := must(t, slices.Concat([]string{"queue"}, command, []string{"--json"})...)
		lines := strings.Split(got, "\n")
		if len(lines) < 2 || !strings.Contains(lines[0], `"body":null,"cbor":"f`) || !strings.Contains(lines[1], `"body":"X'F97E00'","cbor":"69`) {
			t.Errorf("%s: got %q", command[0], got)
		}
	}
}

// TestSendLimit: a person may send to a queue that has more messages than a program would
// let in, unless he says otherwise.
func TestSendLimit(t *testing.T) {
	store := newDrained(t, 0) // with two messages and one that can't be read
	err := ownBelow(t.Context(), target{url: store, actor: "shop"}, func(a *actorstore.Actor) error {
		q, err := queue.Open(t.Context(), a, &queue.Options{Env: part.Env{Logger: slog.New(slog.DiscardHandler)}})
		if err != nil {
			return err
		}
		// With the two, as many as a queue takes. Not more at once than the smallest atomic
		// batch holds.
		for sends := range slices.Chunk(make([]queue.Send, 998), 100) {
			_, serr := q.EnqueueAll(t.Context(), sends)
			err = errors.Join(err, serr)
		}
		return errors.Join(err, q.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	must(t, "queue", "send", store, "shop", "order", "1")
	must(t, "queue", "send", store, "shop", "order", "1", "--max", "1002")
	r := program(t.Context(), strings.NewReader(""), "queue", "send", store, "shop", "order", "1", "--max", "1002")
	if r.code != serving.ExitFailed || !strings.Contains(r.stderr, "Limit is 1002 messages") {
		t.Errorf("%+v", r)
	}
	if r := program(t.Context(), strings.NewReader(""), "queue", "send", store, "shop", "order", "1", "--max", "-1"); r.code != serving.ExitUsage {
		t.Errorf("%+v", r)
	}
}
