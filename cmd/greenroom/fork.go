package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

func newFork(e *env) *cobra.Command {
	wake := false
	cmd := &cobra.Command{
		Use:   "fork STORE ACTOR NEW",
		Short: "Make a new actor with all that an actor has",
		Long: `Copy the actor, in the state it has now, to the new actor NEW of the same store, which
must not be there yet and appears when it is whole and on stable storage. Its
database, user keys, queue, workflows, traces and own record are copied, its connections,
what it has sent to others and the inspector's token are not.

What the actor was about to do is copied too: messages, workflows and scheduled events that
were pending. NEW does nothing of it before it is called, or woken: by --wake, or later by
greenroom wake.`,
		Example: `  greenroom fork data music rehearsal`,
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			return fork(cmd.Context(), e, args[0], args[1], args[2], wake)
		},
	}
	cmd.Flags().BoolVar(&wake, "wake", false, wakeHelp)
	return cmd
}

// wakeHelp is what commands that make an actor of another state say of --wake.
const wakeHelp = "wake the actor at once, where a host runs it, to do what is due"

func fork(ctx context.Context, e *env, url, actor, name string, wake bool) error {
	p := newProgress(e.progress)
	defer p.end()
	in := &admin.ForkIn{To: name, Wake: wake, Progress: func(used int64) { p.show(used, used) }}
	return doStore(ctx, target{url: url, actor: actor, env: e, limits: e.limits}, admin.Fork, in, nil)
}

func newDrop(many bulk) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use:   "drop STORE [ACTOR]",
		Short: "Remove an actor with all that it has",
		Long: `Remove an actor: its name, database, user keys, queue, workflows, traces, connections and
own record. Its code isn't asked. In a store that a host has open, an actor that is awake
leaves memory first; one that another program has open is left as it is. A program that
uses the name later makes a new actor.

On a terminal drop asks first; elsewhere, and for more than one actor, it needs --yes.

` + bulkHelp,
		Example: "  greenroom drop data lobby --yes\n  greenroom drop data --named session/ --idle 30d --rate 50 --yes",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := many.parse(len(args) == 2); err != nil {
				return err
			}
			if len(args) == 1 {
				if !yes && !many.dryRun {
					return serving.Usage("to remove all actors that the flags choose, say --yes; --dry-run lists them")
				}
				return many.run(cmd.Context(), args[0], func(o opened, actor string) error {
					if o.client != nil {
						_, err := admin.Drop.Ask(cmd.Context(), o.client, actor, &admin.None{})
						return invalid(err)
					}
					t := target{url: args[0], actor: actor, env: many.env}
					return doStoreIn(cmd.Context(), o.Store, t, admin.Drop, &admin.None{})
				})
			}
			t := target{url: args[0], actor: args[1], env: many.env}
			if yes {
				return drop(cmd.Context(), t, func(string) error { return nil })
			}
			in, out := terminal(many.stdin), terminal(many.stdout)
			if in == nil || out == nil {
				return serving.Usage("drop asks on a terminal only: without one, say --yes")
			}
			person := newTerminalSource(struct {
				io.Reader
				io.Writer
			}{in, out}, in, &history{})
			return drop(cmd.Context(), t, func(question string) error {
				return confirm(cmd.Context(), person, visibleText(question), say(nil, "the actor %s is left as it is", t.actor))
			})
		},
	}
	many.flags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

// drop removes the actor if agree, which is asked about one that is there, returns nil.
func drop(ctx context.Context, t target, agree func(question string) error) error {
	return doStore(ctx, t, admin.Drop, &admin.None{}, func(v *greenroom.View) error {
		return agree(fmt.Sprintf("Remove the actor %s from %s, with its %d bytes?", t.actor, storeurl.Display(t.url), v.Info().Used))
	})
}
