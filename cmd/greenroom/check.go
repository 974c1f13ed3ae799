package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/vfs"
)

// errProblems: a check found problems, and has written them.
var errProblems = errors.New("there are problems")

func newCheck(e *env) *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use:   "check STORE [ACTOR]",
		Short: "Walk everything that is stored, and report what is wrong with it",
		Long: `Read everything that the store has, or one actor has, and write a line about each
thing that is wrong: whose it is, where, and what. The actors' databases are looked
at by SQLite too (PRAGMA integrity_check), their queues are counted, the histories of
their workflows are read, and their traces are compared with the index of them. A last
line counts.

"harmless" is what a crash may leave, and what the next owner of the actor removes;
nothing is lost. "note" is a transaction that was cut off, and that the next owner
rolls back: that is no problem; or that other users of this machine can read the
store's files ("exposed" in the last object of --json). The status is 1 if there are
problems, harmless or not. Nothing is changed.`,
		Example: `  greenroom check data
  greenroom check --json data music`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return check(cmd.Context(), e, args, json)
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "write one object a line")
	return cmd
}

func check(ctx context.Context, e *env, args []string, json bool) error {
	out := bufio.NewWriter(e.stdout)
	c := &storeCheck{env: e, url: args[0], out: out, json: json, hide: func() {}}
	err := readStore(ctx, args[0], func(s *storeurl.Store) error {
		c.store = s
		if len(args) == 1 {
			return c.all(ctx)
		}
		id, err := s.ID(ctx, args[1])
		if err == nil {
			err = c.one(ctx, id)
		}
		return actorError(args[0], args[1], err)
	})
	c.hide()
	if err == nil {
		c.summary()
	}
	err = errors.Join(err, out.Flush())
	if err == nil && c.problems > 0 {
		return errProblems
	}
	return err
}

// A storeCheck is one run of greenroom check.
type storeCheck struct {
	env   *env
	url   string
	store *storeurl.Store
	out   *bufio.Writer // its Flush reports errors
	json  bool
	hide  func() // takes the hint from the terminal

	named actorstore.ID // whose label that is
	label string

	exposed                        bool // see storeurl.Store.Exposed
	actors, keys                   int
	problems, harmless, unfinished int
}

// all checks the store.
func (c *storeCheck) all(ctx context.Context) error {
	c.hint("the store")
	if err := c.access(); err != nil {
		return err
	}
	if err := c.walk(ctx, actorstore.ID{}, c.store.Lower().Check(ctx)); err != nil {
		return err
	}
	for id, err := range c.store.Lower().IDs(ctx) {
		if err == nil {
			err = c.actor(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// access looks at who can read the store.
func (c *storeCheck) access() (err error) {
	if c.exposed, err = c.store.Exposed(); err != nil || !c.exposed {
		return err
	}
	_, dir, err := storeurl.Parse(c.url)
	if err == nil && !c.json {
		c.hide()
		fmt.Fprintln(c.out, oneLine("note: the store: other users of this machine can read or change its files (chmod -R go= "+dir+" ends that)"))
	}
	return err
}

// one checks one actor.
func (c *storeCheck) one(ctx context.Context, id actorstore.ID) error {
	c.hint(c.labelOf(ctx, id))
	if err := c.walk(ctx, id, c.store.Lower().CheckActor(ctx, id)); err != nil {
		return err
	}
	return c.actor(ctx, id)
}

// actor counts an actor's keys, and checks its database, its queue, its workflow and its
// traces.
func (c *storeCheck) actor(ctx context.Context, id actorstore.ID) (err error) {
	c.hint(c.labelOf(ctx, id))
	c.actors++
	v, err := c.store.Lower().View(ctx, id)
	switch {
	case errors.Is(err, actorstore.ErrCorrupt), errors.Is(err, actorstore.ErrNewerFormat), errors.Is(err, actorstore.ErrUnknownActor):
		return nil // so its head is damaged, which was found before
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		c.broken(ctx, id, err)
		return nil
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	for _, err := range v.Survey(ctx, nil, nil) {
		if err != nil && !errors.Is(err, actorstore.ErrCorrupt) {
			break // vfs.Check meets it again
		}
		c.keys++
	}
	if err := c.walk(ctx, id, vfs.Check(ctx, v, nil)); err != nil {
		return err
	}
	if err := c.walk(ctx, id, queue.Check(ctx, v)); err != nil {
		return err
	}
	if err := c.walk(ctx, id, checkWorkflow(ctx, v)); err != nil {
		return err
	}
	return c.walk(ctx, id, checkTraces(ctx, v))
}

// walk writes findings, those about the actor id, or about the store if that is the
// zero id. What the engine can't read is a problem too, and ends only this walk. An
// error is an interrupt, or that there is no such actor.
func (c *storeCheck) walk(ctx context.Context, id actorstore.ID, findings iter.Seq2[actorstore.Finding, error]) error {
	for f, err := range findings {
		switch {
		case err == nil:
			c.find(ctx, f)
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, actorstore.ErrUnknownActor):
			return err
		default:
			c.broken(ctx, id, err)
		}
	}
	return nil
}

// broken writes that a check ended before its end.
func (c *storeCheck) broken(ctx context.Context, id actorstore.ID, err error) {
	c.find(ctx, actorstore.Finding{Actor: id, Where: "the check", What: "it could not go on: " + err.Error()})
}

// hint says on a terminal what is looked at.
func (c *storeCheck) hint(what string) {
	c.hide()
	c.hide = showHint(c.env.progress, "checking "+visible(what)+" …")
}

// labelOf names an actor as the command line does. That of the store is "".
func (c *storeCheck) labelOf(ctx context.Context, id actorstore.ID) string {
	if c.named == id {
		return c.label
	}
	c.named, c.label = id, "id:"+id.String()
	if v, err := c.store.Lower().View(ctx, id); err == nil {
		if name := v.Info().Name; name != "" {
			c.label = name
		}
		_ = v.Close() // its name was read
	}
	return c.label
}

// A findingLine is a finding as an object. The actor is left out of those about the
// store itself.
type findingLine struct {
	Actor      string `json:"actor,omitempty"` // as the command line names it
	ID         string `json:"id,omitempty"`
	Where      string `json:"where"`
	What       string `json:"what"`
	Harmless   bool   `json:"harmless"`
	Unfinished bool   `json:"unfinished"`
}

// find counts a finding and writes its line.
func (c *storeCheck) find(ctx context.Context, f actorstore.Finding) {
	kind := ""
	switch {
	case f.Unfinished:
		c.unfinished++
		kind = "note: "
	case f.Harmless:
		c.problems++
		c.harmless++
		kind = "harmless: "
	default:
		c.problems++
	}
	line := findingLine{Where: f.Where, What: f.What, Harmless: f.Harmless, Unfinished: f.Unfinished}
	whose := ""
	if !f.Actor.IsZero() {
		line.Actor, line.ID = c.labelOf(ctx, f.Actor), f.Actor.String()
		whose = line.Actor + ": "
	}
	c.hide()
	if c.json {
		c.object(line)
	} else {
		fmt.Fprintln(c.out, oneLine(kind+whose+f.Where+": "+f.What))
	}
	if terminal(c.env.stdout) != nil {
		_ = c.out.Flush() // the last Flush reports it again
	}
}

// A summaryLine is the last line as an object. Problems counts the harmless ones too.
type summaryLine struct {
	Actors     int `json:"actors"`
	Keys       int `json:"keys"`
	Problems   int `json:"problems"`
	Harmless   int `json:"harmless"`
	Unfinished int `json:"unfinished"`
	// Exposed: other users of the machine can read the store's files.
	Exposed bool `json:"exposed,omitempty"`
}

// summary writes the last line.
func (c *storeCheck) summary() {
	if c.json {
		c.object(summaryLine{c.actors, c.keys, c.problems, c.harmless, c.unfinished, c.exposed})
		return
	}
	problems := "no problems"
	if c.problems > 0 {
		problems = count(c.problems, "problem")
	}
	parts := []string{count(c.actors, "actor"), count(c.keys, "key"), problems}
	if c.harmless > 0 {
		parts[2] += fmt.Sprintf(" (%d harmless)", c.harmless)
	}
	if c.unfinished > 0 {
		parts = append(parts, count(c.unfinished, "unfinished transaction"))
	}
	fmt.Fprintln(c.out, strings.Join(parts, ", "))
}

// count is a number of things in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// object writes v as JSON on a line.
func (c *storeCheck) object(v any) {
	_ = newJSON(c.out).Encode(v) // nothing in it can fail but out, whose Flush reports it
}

// oneLine is visible for what must stay on its line.
func oneLine(s string) string { return visible(strings.ReplaceAll(s, "\n", "; ")) }
