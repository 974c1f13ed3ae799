package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

func newFork(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "fork STORE ACTOR NEW",
		Short: "Make a new actor with all that an actor has",
		Long: `Copy the actor, in the state it has now, to the new actor NEW of the same store, which
must not be there yet and appears when it is whole and on stable storage. Its
database, user keys, queue, workflows, traces and own record are copied, its connections
and the inspector's token are not.

What the actor was about to do is copied too: a runtime that wakes both has both handle
the messages, workflows and scheduled events that were pending.`,
		Example: `  greenroom fork data music rehearsal`,
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			return fork(cmd.Context(), e, args[0], args[1], args[2])
		},
	}
}

func fork(ctx context.Context, e *env, url, actor, name string) error {
	var opts actorstore.ForkOptions
	if text, ok := strings.CutPrefix(name, "id:"); ok {
		id, err := actorstore.ParseID(text)
		if err != nil {
			return nameError(name, err)
		}
		opts.ID = id
	} else if opts.Name = name; name == "" {
		return &usageError{"the name of the new actor is empty"}
	}
	return withStore(ctx, url, greenroom.Options{MustExist: true, Limits: e.limits}, func(s *storeurl.Store) error {
		return viewIn(ctx, s, target{url: url, actor: actor}, func(from *greenroom.View) error {
			p := newProgress(e.progress)
			defer p.end()
			opts.Progress = func(used int64) { p.show(used, max(used, from.Info().Used)) }
			_, err := s.Lower().Fork(ctx, from.Lower().Snapshot, &opts)
			return forkError(url, name, err)
		})
	})
}

// forkError says why there is no new actor.
func forkError(url, name string, err error) error {
	var quota *actorstore.QuotaError
	switch {
	case errors.Is(err, actorstore.ErrExists), errors.Is(err, actorstore.ErrNameTaken):
		return say(err, "there is an actor %s in %s already", name, storeurl.Display(url))
	case errors.Is(err, actorstore.ErrName):
		_, text, _ := strings.Cut(err.Error(), actorstore.ErrName.Error())
		return &usageError{strings.TrimPrefix(actorstore.ErrName.Error(), "actorstore: ") + text}
	case errors.As(err, &quota):
		return say(err, "the actor does not fit: it has more than the %d bytes that an actor may store here", quota.Limit)
	case err != nil && !errors.Is(err, context.Canceled):
		return fmt.Errorf("actor %s: %w", name, err)
	}
	return err
}

func newDrop(stdin io.Reader, stdout io.Writer) *cobra.Command {
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
			in, out := terminal(stdin), terminal(stdout)
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
