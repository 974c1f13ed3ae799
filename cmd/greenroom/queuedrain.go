package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/queue"
)

// drainPage is how many messages are written and removed at once.
const drainPage = 100

// A drain is one call of greenroom queue drain.
type drain struct {
	env   *env
	out   *bufio.Writer
	json  bool
	all   bool
	limit int
	names []string

	delete  func(*admin.DeleteMessagesIn) (*admin.DeleteMessagesOut, error)
	page    []queue.ID // written, and still there
	drained int
	taken   int            // written, and then not ready any more
	stay    map[string]int // those that stay, by their state
}

func newQueueDrain(e *env) *cobra.Command {
	d := &drain{env: e, stay: map[string]int{}}
	cmd := &cobra.Command{
		Use:   "drain STORE ACTOR [NAME…]",
		Short: "Write the messages, and remove them",
		Long: `Write the messages of the names, or of any, that are ready, oldest first, as peek
does, and remove them; how many, and how many stay, is on standard error. Messages
that are delayed, or leased to somebody who may still complete them, stay unless --all
is given. So does what can't be read.

A message is removed when its line has been written: a hundred at a time are written,
then removed in one commit. If it is cut off, some may have been written and still be
there, and none is gone that wasn't written. One that its program takes in between stays,
and standard error says so. JSON can't say all that a body may
hold; with --json there is the body's CBOR in hexadecimal, too.`,
		Example: "  greenroom queue drain data lobby job.dlq --json >dead.jsonl",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.limit < 0 {
				return serving.Usage("a negative --limit")
			}
			d.names = args[2:]
			return d.run(cmd.Context(), target{url: args[0], actor: args[1], env: e})
		},
	}
	cmd.Flags().BoolVar(&d.json, "json", false, "write one object a line")
	cmd.Flags().BoolVar(&d.all, "all", false, "delayed and leased messages, too")
	cmd.Flags().IntVar(&d.limit, "limit", 0, "at most `N` messages; 0 means all")
	return cmd
}

func newQueueRedrive(t target) *cobra.Command {
	var in admin.RedriveMessagesIn
	cmd := &cobra.Command{
		Use:   "redrive STORE ACTOR [NAME…]",
		Short: "Make messages of dead letters again",
		Long: `Make messages of the dead letters again that had the names before, or of all: under those
names, behind all others, with all their attempts, and without what had gone wrong. NAME is without .dlq. How many is on
standard output.`,
		Example: "  greenroom queue redrive data lobby\n  greenroom queue redrive data lobby job --limit 10",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if in.Limit < 0 {
				return serving.Usage("a negative --limit")
			}
			in.Names = args[2:]
			t.url, t.actor = args[0], args[1]
			out, err := do(cmd.Context(), t, admin.RedriveMessages, &in)
			if err == nil {
				_, err = fmt.Fprintf(t.env.stdout, "%s redriven\n", count(out.Redriven, "dead letter"))
			}
			return err
		},
	}
	cmd.Flags().IntVar(&in.Limit, "limit", 0, "at most `N` dead letters; 0 means all")
	return cmd
}

func (d *drain) run(ctx context.Context, t target) error {
	d.out = bufio.NewWriter(d.env.stdout)
	opened := false
	err := own(ctx, t, func(a *greenroom.Actor) error {
		opened = true
		d.delete = func(in *admin.DeleteMessagesIn) (*admin.DeleteMessagesOut, error) {
			return admin.DeleteMessages.Do(ctx, a, t.actor, in)
		}
		return a.View(ctx, func(v *greenroom.View) error { return d.messages(v) })
	})
	if elsewhere(err) {
		err = t.ask(ctx, err, func(c *admin.Client, s *storeurl.Store, _ bool) error {
			opened = true
			d.delete = func(in *admin.DeleteMessagesIn) (*admin.DeleteMessagesOut, error) {
				return admin.DeleteMessages.Ask(ctx, c, t.actor, false, in)
			}
			return viewIn(ctx, s, t, d.messages)
		})
	}
	if opened {
		fmt.Fprintln(d.env.stderr, d.summary())
	}
	return err
}

// messages writes and removes the messages that v shows.
func (d *drain) messages(v *greenroom.View) error {
	for m, err := range v.Messages(&queue.ListOptions{Names: d.names}) {
		switch {
		case err != nil:
			return err
		case m.Err != nil:
			d.stay["unreadable"]++
			continue
		case m.State != "ready" && !d.all, d.limit > 0 && d.drained+len(d.page) == d.limit:
			d.stay[m.State]++
			continue
		}
		if err := d.write(&m); err != nil {
			return err
		}
		if d.page = append(d.page, m.ID); len(d.page) == drainPage {
			if err := d.remove(); err != nil {
				return err
			}
		}
	}
	return d.remove()
}

// A drainLine is a message as an object. The body is null if it isn't to be had in JSON.
type drainLine struct {
	ID         queue.ID        `json:"id"`
	Name       string          `json:"name"`
	Created    string          `json:"created"`
	State      string          `json:"state"`
	Deliveries uint32          `json:"deliveries"`
	Body       json.RawMessage `json:"body"`
	CBOR       string          `json:"cbor"`
	Code       string          `json:"code,omitempty"`
	Error      string          `json:"error,omitempty"`
	Attempts   []string        `json:"attempts,omitempty"`
	From       string          `json:"from,omitempty"`
	Priority   int             `json:"priority,omitempty"`
}

func (d *drain) write(m *queue.Stored) error {
	body := bodyCell(m.Body)
	if !d.json {
		layout{mode: modeList, separated: true}.printer(d.out).row(cells((&queueCommand{}).message(m)))
		return nil // the Flush before the removal says what went wrong
	}
	line := drainLine{ID: m.ID, Name: m.Name, Created: stamp(m.Created), State: m.State,
		Deliveries: m.Deliveries, CBOR: hex.EncodeToString(m.Body),
		Code: m.Failure.Code, Error: m.Failure.Text, Attempts: stamps(m.Failure.Attempts), From: m.From, Priority: m.Priority}
	if body.kind == cellJSON {
		line.Body = body.text
	}
	return newJSON(d.out).Encode(line)
}

// remove removes what has been written, once that has left this program, and is on stable
// storage if it went into a file: the removal will be.
func (d *drain) remove() error {
	err := d.out.Flush()
	if f, ok := d.env.stdout.(*os.File); ok && err == nil {
		if info, serr := f.Stat(); serr == nil && info.Mode().IsRegular() {
			err = f.Sync()
		}
	}
	if err != nil {
		return fmt.Errorf("write the messages: %w", err)
	}
	if len(d.page) == 0 {
		return nil
	}
	out, err := d.delete(&admin.DeleteMessagesIn{IDs: d.page, Ready: !d.all})
	if out != nil {
		d.drained += len(out.Deleted)
		d.taken += len(d.page) - len(out.Deleted)
	}
	d.page = d.page[:0]
	return err
}

// summary says what was removed, and what stays.
func (d *drain) summary() string {
	s := count(d.drained, "message") + " drained"
	var stay []string
	for _, state := range []string{"ready", "delayed", "leased", "unreadable"} {
		if n := d.stay[state]; n > 0 {
			stay = append(stay, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(stay) > 0 {
		s += "; left: " + strings.Join(stay, ", ")
	}
	if d.taken > 0 {
		s += fmt.Sprintf("; of those that were written, the actor's program has taken %d meanwhile", d.taken)
	}
	return s
}
