package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/attributes"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/workflow"
)

func newCheck(e *env) *cobra.Command {
	var json, repair bool
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
rolls back ("unfinished"): that is no problem; or what a RivetKit actor is found by, of
before it last woke; or a table that SQLite can't check here, because it
needs a function, a collation or a module that the actor's own program registers
("unchecked"); or that other users of this machine can read the store's files
("exposed" in the last object of --json). The status is 1 if there are
problems, harmless or not. Nothing is changed.

Where something can't be read the check goes on with the other actors, and says of each whether
it is "whole". Actors without a name behind that place in the list of actors aren't found.

With --repair, the index by which actors are found (see "greenroom ls") is made what the actors
store, before it is checked: also that of a store that an older version has made. Nothing else is changed.`,
		Example: `  greenroom check data
  greenroom check --json data music`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if repair && (len(args) > 1 || e.withoutLogRest) {
				return serving.Usage("--repair is for a whole store")
			}
			c := &storeCheck{env: e, url: args[0], out: bufio.NewWriter(e.stdout), json: json, hide: func() {}}
			if repair {
				if err := c.repair(cmd.Context()); err != nil {
					return err
				}
			}
			return c.run(cmd.Context(), args[1:])
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "write one object a line")
	cmd.Flags().BoolVar(&repair, "repair", false, "make the index what the actors store, before")
	logRestFlag(cmd, e)
	return cmd
}

// A storeCheck is one run of greenroom check.
type storeCheck struct {
	env   *env
	url   string
	store *actorstore.Store
	out   *bufio.Writer // its Flush reports errors
	json  bool
	hide  func() // takes the hint from the terminal

	found func(actorstore.Finding) // gets each finding that isn't harmless; may be nil

	// cut says that the walk over the store has ended at something that can't be read. Then each actor is walked over by itself, and told is
	// what was found before; lost are the actors with problems that aren't harmless.
	cut  bool
	told map[actorstore.Finding]bool
	lost map[actorstore.ID]bool

	named actorstore.ID // whose label that is
	label string

	summary summaryLine
}

// run checks the actor that is named, or without a name the store.
func (c *storeCheck) run(ctx context.Context, actor []string) error {
	err := readStore(ctx, target{url: c.url, env: c.env}, func(s *storeurl.Store) error {
		c.store = s.Lower()
		if whole, err := c.store.Indexed(ctx); err == nil { // else the walk finds it
			c.summary.Unindexed = !whole
		}
		if c.env.leftOut != nil {
			c.find(ctx, actorstore.Finding{Where: "the log", What: "its end is left out: " + serving.Message(c.env.leftOut)})
		}
		if len(actor) == 0 {
			return c.all(ctx, s)
		}
		id, err := s.ID(ctx, actor[0])
		if err == nil {
			err = c.one(ctx, id)
		}
		return actorError(ctx, s, &target{url: c.url, actor: actor[0]}, err)
	})
	c.hide()
	if err == nil {
		c.summarize()
	}
	if err = errors.Join(err, c.out.Flush()); err == nil && c.summary.Problems > 0 {
		return serving.ErrProblems
	}
	return err
}

// repair makes the index of the store what its actors store: here, or by the process that has the store open.
func (c *storeCheck) repair(ctx context.Context) error {
	out := &admin.Repaired{}
	err := serving.WithStore(ctx, c.url, greenroom.Options{MustExist: true}, func(s *storeurl.Store) (err error) {
		out, err = admin.RepairIndex.Do(ctx, admin.On{Store: s.Store}, &admin.None{})
		return err
	})
	if errors.Is(err, kv.ErrStoreInUse) {
		client, aerr := storeurl.Ask(ctx, c.url, err)
		if aerr != nil {
			return serving.StoreError(c.url, aerr)
		}
		defer client.Close()
		out, err = admin.RepairIndex.Ask(ctx, client, &admin.None{})
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.env.stderr, "greenroom: repaired %d actors and %d rows of the index\n", out.Actors, out.Rows)
	return err
}

// all checks the store.
func (c *storeCheck) all(ctx context.Context, s *storeurl.Store) error {
	c.hint("the store")
	if err := c.access(); err != nil {
		return err
	}
	if err := c.walk(ctx, actorstore.ID{}, c.store.Check(ctx)); err != nil {
		return err
	}
	if c.summary.Unindexed && !c.json {
		c.write(nil, "note: the index: it isn't built yet, since an older version made the store: greenroom host builds it, and so does --repair")
	}
	for id, err := range c.store.IDs(ctx) {
		switch {
		case err == nil:
			if err = c.alone(ctx, id); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			c.broken(ctx, actorstore.ID{}, err)
			return c.unlisted(ctx)
		}
	}
	return nil
}

// unlisted checks the actors behind what can't be read in the list of them: those that have a name.
func (c *storeCheck) unlisted(ctx context.Context) error {
	listed := map[actorstore.ID]bool{}
	for id, err := range c.store.IDs(ctx) {
		if err == nil { // it was told before
			listed[id] = true
		}
	}
	for n, err := range c.store.Names(ctx) {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			c.broken(ctx, actorstore.ID{}, err)
		case !listed[n.ID]:
			if err := c.alone(ctx, n.ID); err != nil && !errors.Is(err, actorstore.ErrUnknownActor) {
				return err
			}
		}
	}
	return nil
}

// alone checks an actor of the store, all of it if the walk over the store may not have come to its rows. Then it says
// that the actor is whole if it is.
func (c *storeCheck) alone(ctx context.Context, id actorstore.ID) error {
	if c.cut {
		if err := c.walk(ctx, id, c.store.CheckActor(ctx, id)); err != nil {
			return err
		}
	}
	err := c.actor(ctx, id)
	if err == nil && c.cut && !c.lost[id] {
		line := wholeLine{Actor: c.labelOf(ctx, id), ID: id.String(), Whole: true}
		c.write(line, line.Actor+": whole")
	}
	return err
}

// access looks whether others can read the store.
func (c *storeCheck) access() error {
	dir, is, err := storeurl.Dir(c.url)
	if err != nil || !is {
		return err
	}
	if c.summary.Exposed, err = pebblekv.Exposed(dir); err == nil && c.summary.Exposed && !c.json {
		c.write(nil, "note: the store: other users of this machine can read or change its files (chmod -R go= "+dir+" ends that)")
	}
	return err
}

// one checks one actor.
func (c *storeCheck) one(ctx context.Context, id actorstore.ID) error {
	c.hint(c.labelOf(ctx, id))
	if err := c.walk(ctx, id, c.store.CheckActor(ctx, id)); err != nil {
		return err
	}
	return c.actor(ctx, id)
}

// actor counts an actor's keys, and checks its database, its queue, its workflow and its
// traces.
func (c *storeCheck) actor(ctx context.Context, id actorstore.ID) (err error) {
	c.hint(c.labelOf(ctx, id))
	c.summary.Actors++
	v, err := c.store.View(ctx, id)
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
		c.summary.Keys++
	}
	for _, findings := range []iter.Seq2[actorstore.Finding, error]{
		vfs.Check(ctx, v, nil), queue.Check(ctx, v), checkWorkflow(ctx, v), checkTraces(ctx, v), c.attributes(ctx, v),
	} {
		if err := c.walk(ctx, id, findings); err != nil {
			return err
		}
	}
	return nil
}

// findings yields those that look returns, or its error.
func findings(look func() ([]actorstore.Finding, error)) iter.Seq2[actorstore.Finding, error] {
	return func(yield func(actorstore.Finding, error) bool) {
		found, err := look()
		if err != nil {
			yield(actorstore.Finding{}, err)
			return
		}
		all(found)(yield)
	}
}

// checkTraces yields where an actor's traces and their index don't agree. An index that is
// wrong loses no span; it keeps some from being found by their trace.
func checkTraces(ctx context.Context, v *actorstore.View) iter.Seq2[actorstore.Finding, error] {
	return findings(func() (found []actorstore.Finding, err error) {
		texts, err := traces.Check(ctx, v.Snapshot)
		for _, what := range texts {
			found = append(found, actorstore.Finding{Actor: v.Info().ID, Where: "traces", What: what})
		}
		return found, err
	})
}

// attributes yields what the actor is found by and doesn't follow from what it stores. What can't be read was found before.
func (c *storeCheck) attributes(ctx context.Context, v *actorstore.View) iter.Seq2[actorstore.Finding, error] {
	return findings(func() (found []actorstore.Finding, err error) {
		if c.summary.Unindexed {
			return nil, nil
		}
		want, wrong, err := attributes.Wrong(ctx, v)
		if errors.Is(err, actorstore.ErrCorrupt) || errors.Is(err, actorstore.ErrNewerFormat) {
			return nil, nil
		}
		if has := v.Info().Attributes; wrong {
			f := actorstore.Finding{Actor: v.Info().ID, Where: "attributes", What: fmt.Sprintf(
				"it is found by workflow %q, stuck %t, schema %d, and has workflow %q, stuck %t, schema %d: --repair mends that",
				has.Workflow, has.Stuck, has.Schema, want.Workflow, want.Stuck, want.Schema)}
			if v.Layout() == actorstore.LayoutRivetKit { // its attributes are those of when it last fell asleep
				f.Unfinished, f.What = true, f.What+", and so does its next sleep"
			}
			found = append(found, f)
		}
		return found, err
	})
}

// checkWorkflow yields what is wrong with the workflow of an actor. It leaves out
// damaged rows and unknown keys: the check of the store has found them.
func checkWorkflow(ctx context.Context, v *actorstore.View) iter.Seq2[actorstore.Finding, error] {
	return findings(func() (found []actorstore.Finding, err error) {
		_, damages, err := workflow.Read(ctx, v.Snapshot)
		for _, d := range damages {
			where, what := actorstore.Describe(d.Key), damageText(d.Err)
			if !strings.HasPrefix(where, "unknown/") && !strings.Contains(what, "actorstore: ") {
				found = append(found, actorstore.Finding{Actor: v.Info().ID, Where: where, What: what, Harmless: d.Harmless})
			}
		}
		return found, err
	})
}

// damageText is what is wrong, without which kind of error it is.
func damageText(err error) string {
	text := err.Error()
	if errors.Is(err, actorstore.ErrCorrupt) {
		text = strings.TrimPrefix(text, actorstore.ErrCorrupt.Error()+": ")
	}
	return text
}

// walk writes findings about the actor id, or about the store if that is the zero id. What
// the engine can't read is a problem too, and ends only this walk. An error is an
// interrupt, or says that the actor doesn't exist.
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
	c.cut = c.cut || id.IsZero()
	c.find(ctx, actorstore.Finding{Actor: id, Where: "the check", What: "it could not go on: " + err.Error()})
}

// hint says on a terminal what is looked at.
func (c *storeCheck) hint(what string) {
	c.hide()
	c.hide = showHint(c.env.progress, "checking "+visibleText(what)+" …")
}

// labelOf names an actor as the command line does. That of the store is "".
func (c *storeCheck) labelOf(ctx context.Context, id actorstore.ID) string {
	if c.named == id {
		return c.label
	}
	c.named, c.label = id, "id:"+id.String()
	if v, err := c.store.View(ctx, id); err == nil {
		c.label = cmp.Or(v.Info().Name, c.label)
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
	// Unchecked: only the actor's own program can look at it.
	Unchecked bool `json:"unchecked,omitempty"`
}

// A wholeLine says, in a store of which something can't be read, that nothing of an actor is damaged.
type wholeLine struct {
	Actor string `json:"actor"`
	ID    string `json:"id"`
	Whole bool   `json:"whole"`
}

// find counts a finding and writes its line.
func (c *storeCheck) find(ctx context.Context, f actorstore.Finding) {
	if !f.Actor.IsZero() {
		if c.told == nil {
			c.told, c.lost = map[actorstore.Finding]bool{}, map[actorstore.ID]bool{}
		}
		if c.cut && c.told[f] {
			return
		}
		c.told[f] = true
		c.lost[f.Actor] = c.lost[f.Actor] || !f.Harmless && !f.Unfinished && !f.Unchecked
	}
	kind := ""
	switch {
	case f.Unfinished:
		c.summary.Unfinished++
		kind = "note: "
	case f.Unchecked:
		c.summary.Unchecked++
		kind = "note: "
	case f.Harmless:
		c.summary.Harmless++
		kind = "harmless: "
		fallthrough
	default:
		c.summary.Problems++
		if c.found != nil && !f.Harmless {
			c.found(f)
		}
	}
	line := findingLine{Where: f.Where, What: f.What, Harmless: f.Harmless, Unfinished: f.Unfinished, Unchecked: f.Unchecked}
	if !f.Actor.IsZero() {
		line.Actor, line.ID = c.labelOf(ctx, f.Actor), f.Actor.String()
		kind += line.Actor + ": "
	}
	c.write(line, kind+f.Where+": "+f.What)
	if terminal(c.env.stdout) != nil {
		_ = c.out.Flush() // the last Flush reports it again
	}
}

// write writes a line: v as an object, or the text, what doesn't print in it escaped.
func (c *storeCheck) write(v any, text string) {
	c.hide()
	if c.json {
		_ = newJSON(c.out).Encode(v) // nothing in it can fail but out, whose Flush reports it
		return
	}
	fmt.Fprintln(c.out, oneLine(text))
}

// A summaryLine is the last line as an object. Problems counts the harmless ones too.
type summaryLine struct {
	Actors     int `json:"actors"`
	Keys       int `json:"keys"`
	Problems   int `json:"problems"`
	Harmless   int `json:"harmless"`
	Unfinished int `json:"unfinished"`
	// Unchecked counts what only the actors' own programs can look at.
	Unchecked int `json:"unchecked,omitempty"`
	// Exposed: other users of the machine can read the store's files.
	Exposed bool `json:"exposed,omitempty"`
	// Unindexed: the index by which actors are found isn't built yet.
	Unindexed bool `json:"unindexed,omitempty"`
}

// summarize writes the last line.
func (c *storeCheck) summarize() {
	s := c.summary
	text := count(s.Actors, "actor") + ", " + count(s.Keys, "key") + ", no problems"
	if s.Problems > 0 {
		text = strings.TrimSuffix(text, "no problems") + count(s.Problems, "problem")
	}
	if s.Harmless > 0 {
		text += fmt.Sprintf(" (%d harmless)", s.Harmless)
	}
	if s.Unfinished > 0 {
		text += ", " + fmt.Sprintf("%d unfinished", s.Unfinished)
	}
	if s.Unchecked > 0 {
		text += ", " + count(s.Unchecked, "table") + " unchecked"
	}
	c.write(s, text)
}

// count is a number of things in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// oneLine is visible for what must stay on its line.
func oneLine(s string) string { return visibleText(strings.ReplaceAll(s, "\n", "; ")) }
