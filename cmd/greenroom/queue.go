package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/queue"
)

func newQueue(e *env) *cobra.Command {
	return newGroup("queue", "Look into the queue of an actor, and send to it",
		newQueueList(e), newQueueStats(e), newQueuePeek(e), newQueueSend(e), newQueueDrain(e))
}

// A queueCommand is the call of one of the commands that look.
type queueCommand struct {
	json bool
	opts queue.ListOptions
}

func newQueueList(e *env) *cobra.Command {
	c := &queueCommand{}
	return c.command(e, &cobra.Command{
		Use:     "ls STORE ACTOR [NAME…]",
		Short:   "List the messages, oldest first",
		Long:    "List the messages of the names, or all, in the order of their ids: whether each is\nready, until when it isn't, how often it was handed out, and its size in bytes.",
		Example: "  greenroom queue ls data lobby\n  greenroom queue ls data lobby job --limit 20",
		Args:    cobra.MinimumNArgs(2),
	}, c.list)
}

func newQueueStats(e *env) *cobra.Command {
	c := &queueCommand{}
	return c.command(e, &cobra.Command{
		Use:     "stats STORE ACTOR",
		Short:   "Count the messages of each name",
		Long:    "Count the messages of each name, by whether they are ready, with their bytes and the\ntime of the oldest. What can't be read is a line without a name.",
		Example: "  greenroom queue stats data lobby",
		Args:    cobra.ExactArgs(2),
	}, c.stats)
}

func newQueuePeek(e *env) *cobra.Command {
	c := &queueCommand{}
	return c.command(e, &cobra.Command{
		Use:     "peek STORE ACTOR [NAME…]",
		Short:   "Show the next messages with their bodies, and leave them there",
		Long:    "Show the messages that would be received next, of the names or of any, with their\nbodies as JSON: bytes are in base64, undefined is null. One message, unless --limit says\nanother number; 0 means all. JSON can't say all that a body may hold; with --json there\nis the body's CBOR in hexadecimal, too, and the body is null if there is no JSON for it.",
		Example: "  greenroom queue peek data lobby job\n  greenroom queue peek data lobby --limit 5 --json",
		Args:    cobra.MinimumNArgs(2),
	}, c.peek)
}

// command completes a command that looks.
func (c *queueCommand) command(e *env, cmd *cobra.Command, run func(context.Context, *greenroom.View, printer) error) *cobra.Command {
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
			return &usageError{"a negative --limit"}
		}
		c.opts.Names = args[2:]
		out := bufio.NewWriter(e.stdout)
		p := listLayout(c.json, terminal(e.stdout) != nil).printer(out)
		err := view(cmd.Context(), args[0], args[1], func(v *greenroom.View) error { return run(cmd.Context(), v, p) })
		return errors.Join(err, out.Flush())
	}
	return cmd
}

func (c *queueCommand) list(ctx context.Context, v *greenroom.View, p printer) error {
	p.begin([]string{"id", "name", "state", "until", "deliveries", "size", "created", "problem"})
	for m, err := range v.Messages(&c.opts) {
		if err != nil {
			return err
		}
		p.row([]cell{idCell(m.ID), nameCell(&m), optionalCell(m.State), optionalTimeCell(m.Available),
			intCell(int64(m.Deliveries)), intCell(int64(m.Size)), optionalTimeCell(m.Created), problemCell(m.Err)})
	}
	p.end()
	return nil
}

func (c *queueCommand) stats(ctx context.Context, v *greenroom.View, p printer) error {
	type count struct {
		name              cell
		total             int64
		state             map[string]int64
		bytes, unreadable int64
		oldest            time.Time
	}
	var order []string // as they came: by their oldest messages
	counts := map[string]*count{}
	for m, err := range v.Messages(nil) {
		if err != nil {
			return err
		}
		key := "name " + m.Name
		if m.Err != nil {
			key = "none"
		}
		n := counts[key]
		if n == nil {
			n = &count{name: nameCell(&m), state: map[string]int64{}, oldest: m.Created}
			counts[key] = n
			order = append(order, key)
		}
		n.total++
		n.bytes += int64(m.Size)
		if m.Err != nil {
			n.unreadable++
			continue
		}
		n.state[m.State]++
		if m.Created.Before(n.oldest) {
			n.oldest = m.Created
		}
	}
	p.begin([]string{"name", "messages", "ready", "delayed", "leased", "unreadable", "bytes", "oldest"})
	for _, key := range order {
		n := counts[key]
		p.row([]cell{n.name, intCell(n.total), intCell(n.state["ready"]), intCell(n.state["delayed"]),
			intCell(n.state["leased"]), intCell(n.unreadable), intCell(n.bytes), optionalTimeCell(n.oldest)})
	}
	p.end()
	return nil
}

func (c *queueCommand) peek(ctx context.Context, v *greenroom.View, p printer) error {
	columns := []string{"id", "name", "created", "deliveries", "body"}
	if c.json {
		columns = append(columns, "cbor")
	}
	p.begin(columns)
	opts, n := c.opts, 0
	opts.Limit = 0 // those that aren't ready don't count
	for m, err := range v.Messages(&opts) {
		if err != nil {
			return err
		}
		if m.Err != nil || m.State != "ready" {
			continue
		}
		p.row(c.message(&m))
		if n++; n == c.opts.Limit {
			break
		}
	}
	p.end()
	return nil
}

// message is the line of a message with its body. What isn't to be had in JSON is nothing
// there: as the text that other bytes are in JSON it would pass for a body that is one.
func (c *queueCommand) message(m *queue.Stored) []cell {
	body := bodyCell(m.Body)
	line := []cell{idCell(m.ID), nameCell(m), timeCell(m.Created), intCell(int64(m.Deliveries)), body}
	if !c.json {
		return line
	}
	if body.kind != cellJSON {
		line[len(line)-1] = cell{}
	}
	return append(line, textCell(hex.EncodeToString(m.Body)))
}

// idCell is the id of a message, nothing for a key that is no message's.
func idCell(id queue.ID) cell {
	if id == 0 {
		return cell{}
	}
	return cell{kind: cellInt, text: []byte(id.String())}
}

// nameCell is the name of a message, which may be empty, and is nothing if it can't be
// read.
func nameCell(m *queue.Stored) cell {
	if m.Err != nil {
		return cell{}
	}
	return textCell(m.Name)
}

func optionalTimeCell(t time.Time) cell {
	if t.IsZero() {
		return cell{}
	}
	return timeCell(t)
}

func problemCell(err error) cell {
	if err == nil {
		return cell{}
	}
	return textCell(err.Error())
}

// bodyCell is a body in JSON, or its bytes if that can't be done.
func bodyCell(body queue.Raw) cell {
	v, err := cbor.Decode(body)
	if err == nil {
		var b bytes.Buffer
		if err = newJSON(&b).Encode(v); err == nil {
			return cell{kind: cellJSON, text: bytes.TrimSuffix(b.Bytes(), []byte("\n"))}
		}
	}
	return cell{kind: cellBlob, text: body}
}

func newQueueSend(e *env) *cobra.Command {
	var s queue.Send
	limit := 0
	cmd := &cobra.Command{
		Use:     "send STORE ACTOR NAME [JSON|-]",
		Short:   "Enqueue a message",
		Long:    "Enqueue a message of that name, with a body in JSON, or what standard input has to its\nend, and write its id. The actor must be there, and nobody else may have it open.\nHow many messages its program lets in is not stored: here there is no limit but --max.",
		Example: "  greenroom queue send data lobby greeting '{\"hello\":\"world\"}'",
		Args:    cobra.RangeArgs(3, 4),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := []byte(nil)
			if len(args) == 4 && args[3] != "-" {
				text = []byte(args[3])
			} else {
				var err error
				if text, err = readValue(cmd.Context(), e.stdin); err != nil {
					return err
				}
			}
			if limit < 0 {
				return &usageError{"a negative --max"}
			}
			var err error
			if s.Body, err = parseJSON(text); err != nil {
				return &usageError{"the body is not JSON: " + strings.TrimPrefix(err.Error(), "json: ")}
			}
			s.Name = args[2]
			return send(cmd.Context(), e, target{url: args[0], actor: args[1]}, s, limit)
		},
	}
	cmd.Flags().IntVar(&limit, "max", 0, "refuse it if the queue has `N` messages; 0 means no limit")
	cmd.Flags().DurationVar(&s.Delay, "delay", 0, "hide the message for this `time`, as 90s")
	cmd.Flags().StringVar(&s.Key, "key", "", "send nothing if a message of the name was sent with this `KEY` a moment ago")
	return cmd
}

func send(ctx context.Context, e *env, t target, s queue.Send, limit int) error {
	t.queue = &greenroom.QueueOptions{MaxMessages: cmp.Or(limit, -1)} // -1 is none, and 0 would be the library's default
	return own(ctx, t, func(a *greenroom.Actor) error {
		q, err := a.Queue(ctx)
		if err != nil {
			return err
		}
		id, err := q.Enqueue(ctx, s)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(e.stdout, id)
		return err
	})
}

// parseJSON returns the one value that text holds, objects with their members in order.
func parseJSON(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	v, err := readJSON(dec)
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = errors.New("there is something behind the value")
		}
	}
	return v, err
}

// readJSON reads the next value.
func readJSON(dec *json.Decoder) (any, error) {
	token, err := dec.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Number:
		if n, err := token.Int64(); err == nil {
			return n, nil
		}
		return token.Float64()
	case json.Delim:
		if token == '[' {
			return readArray(dec)
		}
		return readObject(dec)
	}
	return token, nil
}

func readArray(dec *json.Decoder) (any, error) {
	values := []any{}
	for dec.More() {
		v, err := readJSON(dec)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	_, err := dec.Token()
	return values, err
}

func readObject(dec *json.Decoder) (any, error) {
	o := cbor.Object{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		v, err := readJSON(dec)
		if err != nil {
			return nil, err
		}
		o = append(o, cbor.Member{Name: name.(string), Value: v}) // the decoder allows no other name
	}
	_, err := dec.Token()
	return o, err
}
