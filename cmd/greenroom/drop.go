package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

func newDrop(e *env) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use:   "drop STORE ACTOR",
		Short: "Remove an actor with all that it has",
		Long: `Remove an actor: its name, database, user keys, queue, workflows, traces, connections and
own record. An actor that is open elsewhere is left as it is. A program that uses the
name later makes a new actor.

On a terminal drop asks first; elsewhere it needs --yes.`,
		Example: "  greenroom drop data lobby --yes",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			t := target{url: args[0], actor: args[1]}
			if yes {
				return drop(cmd.Context(), t, func(string) error { return nil })
			}
			in, out := terminal(e.stdin), terminal(e.stdout)
			if in == nil || out == nil {
				return &usageError{"drop asks on a terminal only: without one, say --yes"}
			}
			person := newTerminalSource(struct {
				io.Reader
				io.Writer
			}{in, out}, in, &history{})
			return drop(cmd.Context(), t, func(question string) error {
				return confirm(cmd.Context(), person, visible(question), say(nil, "the actor %s is left as it is", t.actor))
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

// drop removes the actor if agree, which is asked about one that is there, returns nil.
func drop(ctx context.Context, t target, agree func(question string) error) error {
	return withStore(ctx, t.url, greenroom.Options{MustExist: true}, func(s *storeurl.Store) error {
		err := viewIn(ctx, s, t, func(v *greenroom.View) error {
			return agree(fmt.Sprintf("Remove the actor %s from %s, with its %d bytes?", t.actor, storeurl.Display(t.url), v.Info().Used))
		})
		if err != nil {
			return err
		}
		if err = s.Drop(ctx, t.actor); err != nil {
			err = actorError(ctx, s, &t, err)
		}
		return err
	})
}
