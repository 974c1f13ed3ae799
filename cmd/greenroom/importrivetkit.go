package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/rivetkit/importer"
)

func newImportRivetKit(e *env) *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use:   "import-rivetkit STORE DIR",
		Short: "Copy the actors of a RivetKit program into the store",
		Long: `Copy the actors of a program on RivetKit 2.1 or 2.2 into the store. DIR is where the
program keeps its files: it has the folders state, databases and alarms. The program
must not run meanwhile. DIR is not changed, but SQLite may leave -wal and -shm files
beside the databases.

An actor of the type T with the key ["a","b"] is T/a/b in the store. All that it has is
copied: its state, database, queue, workflow, traces, user keys and hibernating
connections, and when it must be woken. An actor that was being destroyed is left out.

An actor is complete in the store or is marked as one that isn't: after an interrupt,
run the command again. It goes on with the actors that are missing, and leaves those as
they are that are there. An actor that was made otherwise, or that has been started
since, is never overwritten.

What can't be imported is a line on standard error, with the file and the reason, and
the status is 1 then. All other actors are imported. The last line counts.

Actors are a table on a terminal, and elsewhere lines with fields separated by tabs.`,
		Example: `  greenroom import-rivetkit data rivetkit-files`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return importRivetKit(cmd.Context(), e, args[0], args[1], json)
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "write an array of objects")
	return cmd
}

// A rivetImport is one run of greenroom import-rivetkit.
type rivetImport struct {
	env      *env
	url      string
	dir      *importer.Dir
	importer *importer.Importer

	outcomes map[importer.Outcome]int
	problems int
}

func importRivetKit(ctx context.Context, e *env, url, path string, json bool) error {
	// Before the store is made: a slip in the name leaves nothing.
	dir, err := importer.OpenDir(path)
	if errors.Is(err, importer.ErrNoDriver) {
		return say(err, "%s is not where a RivetKit program keeps its files: it has no folder state", path)
	}
	if err != nil {
		return err
	}
	ids, err := dir.IDs()
	if err != nil {
		return err
	}
	strays, err := dir.Strays(ids)
	if err != nil {
		return err
	}
	c := &rivetImport{env: e, url: url, dir: dir, outcomes: map[importer.Outcome]int{}}
	err = serving.WithStore(ctx, url, greenroom.Options{Limits: e.limits}, func(s *storeurl.Store) error {
		c.importer = &importer.Importer{Store: s.Lower(), Engine: s.Engine(), Limits: e.limits}
		out := output{e, json, "actor outcome keys bytes id source"}
		err := list(out, all(ids), func(id string) ([]any, error) { return c.one(ctx, id) })
		for _, file := range strays {
			c.problem("%s is not imported: there is no file in state for it, so its actor is not known", c.dir.DatabasePath(strings.TrimSuffix(file, ".db")))
		}
		fmt.Fprintln(e.stderr, c.summary())
		return err
	})
	if err == nil && c.problems > 0 {
		return serving.ErrProblems
	}
	return err
}

// one imports one actor, by the driver's id, and returns its row: none for one with a problem.
func (c *rivetImport) one(ctx context.Context, id string) ([]any, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	state, err := c.dir.State(id)
	if err != nil {
		c.problem("%s is not imported: %s", c.dir.StatePath(id), rivetFileError(err))
		return nil, nil
	}
	keys := &rivetKeys{ctx: ctx, importer: c, state: &state}
	a := &importer.Actor{State: state, Keys: keys.all}
	if !state.Destroyed {
		a.Wake = c.wake(&state)
	}
	r, err := c.importer.Import(ctx, a)
	err = errors.Join(err, keys.Close())
	if about := (*importer.ActorError)(nil); errors.As(err, &about) {
		c.problem("%s is not imported: %s", c.dir.StatePath(id), c.actorError(about))
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("actor %s: %w", state.ActorName(), err)
	}
	c.outcomes[r.Outcome]++
	var actor any
	if !r.ID.IsZero() {
		actor = r.ID
	}
	return []any{state.ActorName(), r.Outcome, r.Keys, r.Bytes, actor, id}, nil
}

// wake returns when an actor must be woken, in Unix milliseconds; 0 for never. If that can't be read it is at once:
// the program finds out itself then what the actor waits for.
func (c *rivetImport) wake(state *importer.State) int64 {
	at, ok, err := c.dir.Alarm(state.ID)
	switch {
	case err != nil:
		c.problem("%s can't be read, so the actor %s is to be woken at once: %s",
			c.dir.AlarmPath(state.ID), state.ActorName(), rivetFileError(err))
	case !ok:
		return 0
	}
	return max(at, 1)
}

// problem writes what is wrong, on a line.
func (c *rivetImport) problem(format string, args ...any) {
	c.problems++
	fmt.Fprintf(c.env.stderr, "greenroom: %s\n", oneLine(fmt.Sprintf(format, args...)))
}

// rivetFileError says what is wrong with a file of a state or an alarm.
func rivetFileError(err error) string {
	switch {
	case errors.Is(err, importer.ErrVersion):
		_, text, _ := strings.Cut(err.Error(), importer.ErrVersion.Error()+": ")
		return "it has version " + text + "; RivetKit 2.1 and 2.2 write that when the actor is started"
	case errors.Is(err, bare.ErrMalformed):
		return "it is damaged: " + strings.TrimPrefix(err.Error(), "bare: ")
	}
	return serving.Message(err)
}

// actorError says why an actor is not imported.
func (c *rivetImport) actorError(err *importer.ActorError) string {
	var quota *actorstore.QuotaError
	switch {
	case errors.Is(err, importer.ErrExists):
		_, text, _ := strings.Cut(err.Error(), importer.ErrExists.Error())
		return fmt.Sprintf("there is an actor %s in %s already%s; it is left as it is", err.Name, storeurl.Display(c.url), text)
	case errors.As(err, &quota):
		return fmt.Sprintf("it has %d bytes, and an actor may store %d", quota.Wanted, quota.Limit)
	}
	return serving.Message(err)
}

// summary counts.
func (c *rivetImport) summary() string {
	n := c.outcomes
	s := count(n[importer.Imported]+n[importer.Resumed], "actor") + " imported"
	if n := n[importer.Present]; n > 0 {
		s += fmt.Sprintf(", %d there already", n)
	}
	if n := n[importer.Destroyed]; n > 0 {
		s += fmt.Sprintf(", %d destroyed and left out", n)
	}
	if c.problems > 0 {
		s += ", " + count(c.problems, "problem")
	}
	return s
}
