package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/queue"
)

func newQueue(e *env) *cobra.Command {
	return newGroup("queue", "Look into the queue of an actor, and send to it",
		newQueueList(e), newQueueStats(e), newQueuePeek(e), newQueueSend(e), newQueueDrain(e), newQueueRedrive(target{env: e}))
}

// A queueCommand is the call of one of the commands that look.
type queueCommand struct {
	env  *env
	json bool
	opts queue.ListOptions
}

func newQueueList(e *env) *cobra.Command {
	c := &queueCommand{env: e}
	return c.command(&cobra.Command{
		Use:     "ls STORE ACTOR [NAME…]",
		Short:   "List the messages, oldest first",
		Long:    "List the messages of the names, or all, in the order of their ids: whether each is\nready, until when it isn't, how often it was handed out, and its size in bytes. Of one that has failed\nthere are the code and the text of the last error, when the last attempt that failed\nbegan, and which actor sent it, if that is known, and its priority if that isn't 0; --json has the last eight attempts.",
		Example: "  greenroom queue ls data lobby\n  greenroom queue ls data lobby job --limit 20",
		Args:    cobra.MinimumNArgs(2),
	}, c.list)
}

func newQueueStats(e *env) *cobra.Command {
	c := &queueCommand{env: e}
	return c.command(&cobra.Command{
		Use:     "stats STORE ACTOR",
		Short:   "Count the messages of each name",
		Long:    "Count the messages of each name, by whether they are ready, with their bytes and the\ntime of the oldest, and how many have failed before. What can't be read is a line without a name.",
		Example: "  greenroom queue stats data lobby",
		Args:    cobra.ExactArgs(2),
	}, c.stats)
}

func newQueuePeek(e *env) *cobra.Command {
	c := &queueCommand{env: e}
	return c.command(&cobra.Command{
		Use:     "peek STORE ACTOR [NAME…]",
		Short:   "Show the next messages with their bodies, and leave them there",
		Long:    "Show the messages that would be received next, of the names or of any, with their\nbodies as JSON, and what has gone wrong with them: see ls. Bytes are in base64, undefined\nis null. One message, unless --limit says\nanother number; 0 means all. JSON can't say all that a body may hold; with --json there\nis the body's CBOR in hexadecimal, too, and the body is null if there is no JSON for it.",
		Example: "  greenroom queue peek data lobby job\n  greenroom queue peek data lobby --limit 5 --json",
		Args:    cobra.MinimumNArgs(2),
	}, c.peek)
}

// command completes a command that looks.
func (c *queueCommand) command(cmd *cobra.Command, run func(*greenroom.View) error) *cobra.Command {
	limit := 0
	switch cmd.Name() {
	case "peek":
		limit = 1
		fallthrough
	case "ls":
		cmd.Flags().IntVar(&c.opts.Limit, "limit", limit, "at most `N` messages; 0 means all")
	}
	cmd.Flags().BoolVar(&c.json, "json", false, "write an array of objects")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if c.opts.Limit < 0 {
			return serving.Usage("a negative --limit")
		}
		c.opts.Names = args[2:]
		return view(cmd.Context(), target{url: args[0], actor: args[1], env: c.env}, run)
	}
	return cmd
}

func (c *queueCommand) list(v *greenroom.View) error {
	columns := "id name state until deliveries size created problem" + c.failureColumns() + " priority"
	return list(output{c.env, c.json, columns}, v.Messages(&c.opts), func(m queue.Stored) ([]any, error) {
		line := append([]any{m.ID, nameCell(&m), maybe(m.State), m.Available, m.Deliveries, m.Size, m.Created, m.Err}, c.failure(&m)...)
		return append(line, c.priority(&m)), nil
	})
}

// priority is the priority of a message. In a line it is there unless it is 0.
func (c *queueCommand) priority(m *queue.Stored) cell {
	if !c.json && m.Priority == 0 {
		return cell{}
	}
	return newCell(m.Priority)
}

// failureColumns are the columns of what is known of attempts that failed.
func (c *queueCommand) failureColumns() string {
	if c.json {
		return " code error attempts from"
	}
	return " code error tried from"
}

// failure is what is known of the attempts that failed. In a line the newest is there.
func (c *queueCommand) failure(m *queue.Stored) []any {
	f := &m.Failure
	var tried any = time.Time{}
	if n := len(f.Attempts); n > 0 {
		tried = f.Attempts[n-1]
	}
	if c.json {
		tried = jsonCell(stamps(f.Attempts))
	}
	return []any{maybe(f.Code), maybe(f.Text), tried, maybe(m.From)}
}

// stamps are times as stamp writes them; never nil.
func stamps(times []time.Time) []string {
	all := make([]string, 0, len(times))
	for _, t := range times {
		all = append(all, stamp(t))
	}
	return all
}

// A queueCount counts the messages of a name, or those that can't be read.
type queueCount struct {
	name              cell
	total             int
	state             map[string]int
	bytes, unreadable int
	failed            int // there is an attempt that failed
	oldest            time.Time
}

func (c *queueCommand) stats(v *greenroom.View) error {
	var order []*queueCount // as they came: by their oldest messages
	counts := map[string]*queueCount{}
	for m, err := range v.Messages(nil) {
		if err != nil {
			return err
		}
		name := nameCell(&m)
		key := fmt.Sprint(name)
		n := counts[key]
		if n == nil {
			n = &queueCount{name: name, state: map[string]int{}, oldest: m.Created}
			counts[key] = n
			order = append(order, n)
		}
		n.total++
		n.bytes += m.Size
		if m.Err != nil {
			n.unreadable++
			continue
		}
		n.state[m.State]++
		if len(m.Failure.Attempts) > 0 {
			n.failed++
		}
		if m.Created.Before(n.oldest) {
			n.oldest = m.Created
		}
	}
	const columns = "name messages ready delayed leased unreadable bytes oldest failed"
	return list(output{c.env, c.json, columns}, all(order), func(n *queueCount) ([]any, error) {
		return []any{n.name, n.total, n.state["ready"], n.state["delayed"], n.state["leased"], n.unreadable, n.bytes, n.oldest, n.failed}, nil
	})
}

func (c *queueCommand) peek(v *greenroom.View) error {
	columns := "id name created deliveries body"
	if c.json {
		columns += " cbor"
	}
	columns += c.failureColumns()
	opts, n := c.opts, 0
	opts.Limit = 0 // those that aren't ready don't count
	return list(output{c.env, c.json, columns}, v.Messages(&opts), func(m queue.Stored) ([]any, error) {
		switch {
		case n > 0 && n == c.opts.Limit:
			return nil, io.EOF
		case m.Err != nil || m.State != "ready":
			return nil, nil
		}
		n++
		return c.message(&m), nil
	})
}

// message is the line of a message with its body. What isn't to be had in JSON is nothing
// there: as the text that other bytes are in JSON it would pass for a body that is one.
func (c *queueCommand) message(m *queue.Stored) []any {
	body := bodyCell(m.Body)
	if c.json && body.kind != cellJSON {
		body = cell{}
	}
	line := []any{m.ID, nameCell(m), m.Created, m.Deliveries, body}
	if c.json {
		line = append(line, hex.EncodeToString(m.Body))
	}
	return append(line, c.failure(m)...)
}

// nameCell is the name of a message, which may be empty, and is nothing if it can't be
// read.
func nameCell(m *queue.Stored) cell {
	if m.Err != nil {
		return cell{}
	}
	return newCell(m.Name)
}

// bodyCell is a body in JSON, or its bytes if that can't be done.
func bodyCell(body []byte) cell {
	if v, err := cbor.Decode(body); err == nil {
		if c := jsonCell(v); c.kind == cellJSON {
			return c
		}
	}
	return cell{kind: cellBlob, text: body}
}

func newQueueSend(e *env) *cobra.Command {
	var in admin.SendMessageIn
	cmd := &cobra.Command{
		Use:     "send STORE ACTOR NAME [JSON|-]",
		Short:   "Enqueue a message",
		Long:    "Enqueue a message of that name, with a body in JSON, or what standard input has to its\nend, and write its id. The actor must be there.\nA host that runs, or starts, wakes the actor for it.\nHow many messages its program lets in is not stored: while that runs its limit holds,\nand otherwise only --max does.",
		Example: "  greenroom queue send data lobby greeting '{\"hello\":\"world\"}'",
		Args:    cobra.RangeArgs(3, 4),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.value(cmd.Context(), args)
			if err != nil {
				return err
			}
			if in.Max < 0 {
				return serving.Usage("a negative --max")
			}
			if _, err = cbor.FromJSON(text); err != nil {
				return serving.Usage("the body is not JSON: " + strings.TrimPrefix(err.Error(), "json: "))
			}
			in.Name, in.Body = args[2], text
			t := target{url: args[0], actor: args[1], env: e, queue: &greenroom.QueueOptions{MaxMessages: -1}}
			out, err := do(cmd.Context(), t, admin.SendMessage, &in)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(e.stdout, out.ID)
			return err
		},
	}
	cmd.Flags().IntVar(&in.Max, "max", 0, "refuse it if the queue has `N` messages; 0 means no limit")
	cmd.Flags().DurationVar(&in.Delay, "delay", 0, "hide the message for this `time`, as 90s")
	cmd.Flags().IntVar(&in.Priority, "priority", 0, "a number from -100 to 100: of visible messages the highest are received first")
	cmd.Flags().StringVar(&in.Key, "key", "", "send nothing if a message of the name was sent with this `KEY` a moment ago")
	return cmd
}
