package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/workflow"
)

func newWorkflow(e *env) *cobra.Command {
	return newGroup("workflow", "Look into the workflows of actors, and control them",
		newWorkflowList(e), newWorkflowShow(e), newWorkflowSave(e), newWorkflowCancel(bulk{env: e}), newWorkflowRetry(bulk{env: e}), newWorkflowAgain(bulk{env: e}), newWorkflowReplay(target{env: e}))
}

func newWorkflowList(e *env) *cobra.Command {
	var asJSON bool
	var which flowSelection
	cmd := &cobra.Command{
		Use:   "ls STORE",
		Short: "List the actors that have a workflow",
		Long: `List the actors that have a workflow, in the order of their ids: the state of the
workflow, how many entries its history has, the next time that it waits for, what it waits
for, and the error with which it failed, or what is damaged. An actor whose head is damaged
is listed, too, unless a flag chooses actors: it may have a workflow.

A workflow is stuck if it isn't over, and neither a time, a message that it asks for nor the
next attempt at a step can wake it: "greenroom workflow retry" wakes one that is paused.

--waits-for chooses by what a workflow waits for: message, timer (a sleep), attempt (the next one at a step
that failed), resume (a step that is paused), or run (its program). It reads the workflow of each actor that the other flags choose.

` + searchHelp + `

It is a table on a terminal, and elsewhere lines with fields separated by tabs.`,
		Example: "  greenroom workflow ls data\n  greenroom workflow ls data --named order- --json\n  greenroom workflow ls data --state failed --state sleeping\n  greenroom workflow ls data --stuck\n  greenroom workflow ls data --state sleeping --waits-for attempt",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := which.parse(time.Now()); err != nil {
				return err
			}
			return readStore(cmd.Context(), target{url: args[0], env: e}, func(s *storeurl.Store) error {
				return listWorkflows(cmd.Context(), output{e, asJSON, "name id state entries until waits problem"}, s.Lower(), &which)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write an array of objects")
	which.listFlags(cmd)
	cmd.Flags().StringArrayVar(&which.waitsFor, "waits-for", nil, "actors whose workflow waits for `WHAT`: "+strings.Join(waitKinds(), ", ")+"; may be set more than once")
	return cmd
}

// A flowSelection is which workflows are listed.
type flowSelection struct {
	selection
	waitsFor []string // one of them; none means any workflow
	most     int      // that are listed, if waitsFor chooses among the actors; 0 means all
}

// parse checks the flags.
func (s *flowSelection) parse(now time.Time) error {
	for _, kind := range s.waitsFor {
		if !slices.Contains(waitKinds(), kind) {
			return serving.Usage(fmt.Sprintf("--waits-for %s: a workflow waits for %s", kind, strings.Join(waitKinds(), ", ")))
		}
	}
	if err := s.selection.parse(now); err != nil {
		return err
	}
	if s.waitsFor != nil {
		s.most, s.Limit = s.Limit, 0 // which would count those that are left out
	}
	return nil
}

// has reports whether a workflow with these waits is listed.
func (s *flowSelection) has(waits []workflow.Wait) bool {
	return s.waitsFor == nil || slices.ContainsFunc(waits, func(w workflow.Wait) bool { return slices.Contains(s.waitsFor, w.For.String()) })
}

// waitKinds are the words of what workflows wait for.
func waitKinds() (words []string) {
	for k := workflow.WaitRun; k <= workflow.WaitResume; k++ {
		words = append(words, k.String())
	}
	return words
}

func listWorkflows(ctx context.Context, out output, s *actorstore.Store, which *flowSelection) error {
	n := 0
	return list(out, listed(ctx, s, &which.selection), func(at actorstore.NameInfo) ([]any, error) {
		v, err := s.View(ctx, at.ID)
		var snap *workflow.Snapshot
		var damages []workflow.Damage
		if err == nil {
			at.Name = v.Info().Name
			snap, damages, err = workflow.Read(ctx, v.Snapshot)
			err = errors.Join(err, v.Close())
		}
		switch {
		case errors.Is(err, actorstore.ErrUnknownActor): // it is gone
			return nil, nil
		case n > 0 && n == which.most:
			return nil, io.EOF
		case errors.Is(err, actorstore.ErrCorrupt), errors.Is(err, actorstore.ErrNewerFormat): // others are listed all the same
			if which.waitsFor != nil {
				return nil, nil // what it waits for isn't known
			}
			return []any{maybe(at.Name), at.ID, nil, nil, nil, nil, "damaged: " + oneLine(err.Error())}, nil
		case err != nil || noWorkflow(snap, damages):
			return nil, err
		}
		waits := snap.Waits()
		if !which.has(waits) {
			return nil, nil
		}
		n++
		var until time.Time
		if len(waits) > 0 {
			until = dated(waits[0].Until)
		}
		return []any{maybe(at.Name), at.ID, snap.State, len(snap.Entries), until, waitsInWords(snap, waits), workflowProblem(snap, damages)}, nil
	})
}

// listed yields the actors that are chosen. If no more than a name is asked for, those with a damaged head are among them: Store.Actors
// ends there.
func listed(ctx context.Context, s *actorstore.Store, which *selection) iter.Seq2[actorstore.NameInfo, error] {
	return func(yield func(actorstore.NameInfo, error) bool) {
		o := which.ActorsOptions
		if named := (actorstore.ActorsOptions{Prefix: o.Prefix}); reflect.DeepEqual(o, named) {
			allNamed(ctx, s, o.Prefix)(yield)
			return
		}
		if o.Workflow == nil {
			o.Workflow = workflowStates()
		}
		for info, err := range s.Actors(ctx, &o) {
			if err != nil && !info.ID.IsZero() {
				continue // it is damaged, and may not be one of those that are chosen
			}
			if !yield(actorstore.NameInfo{ID: info.ID, Name: info.Name}, err) {
				return
			}
		}
	}
}

// allNamed yields the actors whose names begin with prefix, by name; with none all actors, by id and without a name.
func allNamed(ctx context.Context, s *actorstore.Store, prefix string) iter.Seq2[actorstore.NameInfo, error] {
	return func(yield func(actorstore.NameInfo, error) bool) {
		if prefix == "" {
			for id, err := range s.IDs(ctx) {
				if !yield(actorstore.NameInfo{ID: id}, err) {
					return
				}
			}
			return
		}
		for n, err := range s.Names(ctx) {
			if err == nil && n.Name < prefix {
				continue
			}
			if err == nil && !strings.HasPrefix(n.Name, prefix) || !yield(n, err) {
				return
			}
		}
	}
}

// noWorkflow says whether nothing is stored of a workflow.
func noWorkflow(s *workflow.Snapshot, damages []workflow.Damage) bool {
	return s.Empty() && len(damages) == 0
}

// waitsInWords is what a workflow waits for, on one line.
func waitsInWords(s *workflow.Snapshot, waits []workflow.Wait) maybe {
	words := ""
	if len(waits) > 0 {
		words = waits[0].String()
	}
	if more := len(waits) - 1; more > 0 {
		words += fmt.Sprintf("; and %d more", more)
	}
	if s.Stuck() {
		words = strings.TrimSuffix("stuck: "+words, ": ")
	}
	return maybe(oneLine(words))
}

// workflowProblem is what is damaged, or the error of the workflow.
func workflowProblem(s *workflow.Snapshot, damages []workflow.Damage) maybe {
	for _, d := range damages {
		if !d.Harmless {
			return maybe("damaged: " + actorstore.Describe(d.Key) + ": " + damageText(d.Err))
		}
	}
	if s.Error != nil {
		return maybe(s.Error.Error())
	}
	return ""
}

func newWorkflowSave(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "save STORE ACTOR",
		Short: "Write the history of a workflow in the form that tests replay",
		Long: `Write everything that is stored of the workflow, as one object of JSON: for a test that
replays histories on new code. Values are in base64, as they are stored.`,
		Example: "  greenroom workflow save data order-1 > testdata/order-1.json",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return readWorkflow(cmd.Context(), target{url: args[0], actor: args[1], env: e}, func(s *workflow.Snapshot, damages []workflow.Damage) error {
				if p := workflowProblem(&workflow.Snapshot{}, damages); p != "" {
					return say(actorstore.ErrCorrupt, "the workflow of %s is %s", args[1], p)
				}
				return e.object(s, " ")
			})
		},
	}
}

// readWorkflow runs fn with what is stored of the workflow of an actor.
func readWorkflow(ctx context.Context, t target, fn func(*workflow.Snapshot, []workflow.Damage) error) error {
	return view(ctx, t, func(v *greenroom.View) error {
		s, damages, err := v.Workflow()
		if err != nil {
			return err
		}
		if noWorkflow(s, damages) {
			return say(nil, "the actor %s has no workflow", t.actor)
		}
		return fn(s, damages)
	})
}

func newWorkflowCancel(all bulk) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel STORE [ACTOR]",
		Short: "Cancel a workflow, for ever",
		Long: `Cancel the workflow of an actor. It can only be started anew, by "greenroom
workflow again"; nothing that the workflow has done is undone. Messages that it has received and not
completed are there again for others.

` + bulkHelp,
		Example: "  greenroom workflow cancel data order-1\n  greenroom workflow cancel data --named order/ --stuck --dry-run",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return doAll(cmd.Context(), &all, args, admin.CancelWorkflow, &admin.None{})
		},
	}
	all.flags(cmd)
	return cmd
}

func newWorkflowRetry(all bulk) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry STORE [ACTOR]",
		Short: "Try the steps that failed again",
		Long: `Have the steps of a workflow that failed tried again, with all their attempts: of a
workflow that has failed, or waits for a next attempt or to be resumed. The steps are tried when its program runs the
workflow: a host that runs, or starts, does so at once.

` + bulkHelp,
		Example: "  greenroom workflow retry data order-1\n  greenroom workflow retry data --state failed --rate 10",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return doAll(cmd.Context(), &all, args, admin.RetryWorkflow, &admin.None{})
		},
	}
	all.flags(cmd)
	return cmd
}

func newWorkflowAgain(all bulk) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "again STORE [ACTOR]",
		Short: "Start a workflow that is over anew, with its input",
		Long: `Start the workflow of an actor anew, with the input that it had: one that has completed, has
failed, or was cancelled. Its history, output and error are removed, and all steps are done
again when its program runs the workflow, which a host does at once. What the steps have done stays.

` + bulkHelp,
		Example: "  greenroom workflow again data order-1\n  greenroom workflow again data --state cancelled --label customer=42",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return doAll(cmd.Context(), &all, args, admin.RestartWorkflow, &admin.None{})
		},
	}
	all.flags(cmd)
	return cmd
}

func newWorkflowReplay(t target) *cobra.Command {
	return &cobra.Command{
		Use:   "replay STORE ACTOR STEP",
		Short: "Have a workflow go on from before a step",
		Long: `Forget what the workflow of an actor has recorded from a step on, in the order of time,
so that it goes on from there when its program runs it next. STEP is a path, as "greenroom
workflow show" has it, or the id of the entry. Of a step in a loop the whole innermost
loop is forgotten.

Effects that steps had stay, and messages that were received are gone.`,
		Example: "  greenroom workflow replay data order-1 order/charge",
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			t.url, t.actor = args[0], args[1]
			_, err := do(cmd.Context(), t, admin.ReplayWorkflow, &admin.ReplayWorkflowIn{Step: args[2]})
			return err
		},
	}
}
