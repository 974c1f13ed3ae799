package main

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/workflow"
)

func newWorkflow(e *env) *cobra.Command {
	return newGroup("workflow", "Look into the workflows of actors, and control them",
		newWorkflowList(e), newWorkflowShow(e), newWorkflowSave(e), newWorkflowCancel(), newWorkflowRetry(), newWorkflowAgain(), newWorkflowReplay())
}

func newWorkflowList(e *env) *cobra.Command {
	var asJSON bool
	var prefix string
	cmd := &cobra.Command{
		Use:   "ls STORE",
		Short: "List the actors that have a workflow",
		Long: `List the actors that have a workflow, in the order of their ids: the state of the
workflow, how many entries its history has, the next time that it sleeps until, and the
error with which it failed, or what is damaged. An actor whose head is damaged is listed,
too, since nobody knows whether it has a workflow.

It is a table on a terminal, and elsewhere lines with fields separated by tabs.`,
		Example: "  greenroom workflow ls data\n  greenroom workflow ls data --named order- --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return readStore(cmd.Context(), target{url: args[0], env: e}, func(s *storeurl.Store) error {
				return listWorkflows(cmd.Context(), output{e, asJSON, "name id state entries until problem"}, s.Lower(), prefix)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write an array of objects")
	cmd.Flags().StringVar(&prefix, "named", "", "actors whose names begin with `PREFIX`, by name")
	return cmd
}

func listWorkflows(ctx context.Context, out output, s *actorstore.Store, prefix string) error {
	return list(out, listed(ctx, s, prefix), func(at actorstore.NameInfo) ([]any, error) {
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
		case errors.Is(err, actorstore.ErrCorrupt), errors.Is(err, actorstore.ErrNewerFormat): // others are listed all the same
			return []any{maybe(at.Name), at.ID, nil, nil, nil, "damaged: " + oneLine(err.Error())}, nil
		case err != nil || noWorkflow(snap, damages):
			return nil, err
		}
		return []any{maybe(at.Name), at.ID, snap.State, len(snap.Entries), wakes(snap), workflowProblem(snap, damages)}, nil
	})
}

// listed yields the actors whose names begin with prefix, by name; with none all actors, by
// id and without a name. Those with a damaged head are among them: Store.Actors ends there.
func listed(ctx context.Context, s *actorstore.Store, prefix string) iter.Seq2[actorstore.NameInfo, error] {
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

// wakes is the next time that a workflow sleeps until, as far as its history says it.
func wakes(s *workflow.Snapshot) time.Time {
	next := workflow.Millis(0)
	for _, e := range s.Entries {
		k, ok := e.Kind.(workflow.SleepEntry)
		if ok && k.State == workflow.SleepPending && (next == 0 || k.Deadline < next) && (s.State == workflow.Sleeping || s.State == workflow.Running) {
			next = k.Deadline
		}
	}
	return dated(next)
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

func newWorkflowCancel() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel STORE ACTOR",
		Short: "Cancel a workflow, for ever",
		Long: `Cancel the workflow of an actor that isn't open. It can only be started anew, by "greenroom
workflow again"; nothing that the workflow has done is undone. Messages that it has received and not
completed are there again for others.`,
		Example: "  greenroom workflow cancel data order-1",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := do(cmd.Context(), target{url: args[0], actor: args[1]}, admin.CancelWorkflow, &admin.None{})
			return err
		},
	}
}

func newWorkflowRetry() *cobra.Command {
	return &cobra.Command{
		Use:   "retry STORE ACTOR",
		Short: "Have the steps that failed tried again",
		Long: `Have the steps of a workflow that failed tried again, with all their attempts: of a
workflow that has failed, or waits for a next attempt or to be resumed. The steps are tried when its program runs the
workflow.`,
		Example: "  greenroom workflow retry data order-1",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := do(cmd.Context(), target{url: args[0], actor: args[1]}, admin.RetryWorkflow, &admin.None{})
			return err
		},
	}
}

func newWorkflowAgain() *cobra.Command {
	return &cobra.Command{
		Use:   "again STORE ACTOR",
		Short: "Start a workflow that is over anew, with its input",
		Long: `Start the workflow of an actor anew, with the input that it had: one that has completed, has
failed, or was cancelled. Its history, output and error are removed, and all steps are done
again when its program runs the workflow. What the steps have done stays.`,
		Example: "  greenroom workflow again data order-1",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := do(cmd.Context(), target{url: args[0], actor: args[1]}, admin.RestartWorkflow, &admin.None{})
			return err
		},
	}
}

func newWorkflowReplay() *cobra.Command {
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
			_, err := do(cmd.Context(), target{url: args[0], actor: args[1]}, admin.ReplayWorkflow, &admin.ReplayWorkflowIn{Step: args[2]})
			return err
		},
	}
}
