package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/attributes"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
)

// A copying is one call of greenroom copy.
type copying struct {
	env      *env
	from, to target
	wake     bool
}

func newCopy(c copying) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "copy STORE ACTOR STORE2 [NEW]",
		Short: "Make an actor of another store with all that an actor has",
		Long: `Copy the actor, in the state it has now, to the store STORE2, under its own name or as NEW, which must not be
there yet and appears when it is whole and on stable storage. A store that isn't there is made, which is
told on standard error. The stores may be of different kinds, a directory and one in PostgreSQL for
instance. As with greenroom fork everything is copied but connections, what the actor has sent to others and the
inspector's token, and what it was about to do is there twice: the copy does nothing of it before it is
called, or woken.

A host may have STORE open meanwhile, and use the actor. STORE2, if it is a directory, must be closed.`,
		Example: `  greenroom copy data lobby postgres://app@db1/rooms
  greenroom copy data lobby other lobby.old`,
		Args: cobra.RangeArgs(3, 4),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.from = target{url: args[0], actor: args[1], env: c.env}
			c.to = target{url: args[2], env: c.env}
			if len(args) == 4 {
				if c.to.actor = args[3]; c.to.actor == "" {
					return serving.Usage("the name of the new actor is empty")
				}
			}
			return c.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&c.wake, "wake", false, wakeHelp)
	return cmd
}

func (c *copying) run(ctx context.Context) error {
	switch {
	case c.to.forgotten():
		return serving.Usage("a store in memory is gone when the command ends")
	case c.from.url == c.to.url || sameDir(c.from.url, c.to.url):
		return serving.Usage("both are the same store: greenroom fork copies an actor within one")
	}
	return view(ctx, c.from, func(v *greenroom.View) error {
		opts := greenroom.Options{MustExist: true, Limits: c.env.limits}
		err := serving.WithStore(ctx, c.to.url, opts, func(s *storeurl.Store) error { return c.copy(ctx, v, s) })
		if errors.Is(err, kv.ErrNoStore) {
			opts.MustExist = false
			err = serving.WithStore(ctx, c.to.url, opts, func(s *storeurl.Store) error {
				c.to.made("store", storeurl.Display(c.to.url))
				return c.copy(ctx, v, s)
			})
		}
		if errors.Is(err, kv.ErrStoreInUse) {
			return say(err, "the store %s is in use: %s has it open, and an actor is copied only to a store that is closed, or in PostgreSQL",
				storeurl.Display(c.to.url), serving.HolderOf(err))
		}
		return err
	})
}

// copy makes the new actor.
func (c *copying) copy(ctx context.Context, v *greenroom.View, s *storeurl.Store) error {
	p := newProgress(c.env.progress)
	defer p.end()
	info := v.Info()
	o := actorstore.ForkOptions{
		Name: info.Name, Wake: c.wake, Attributes: attributes.SetReadable, Progress: func(used int64) { p.show(used, info.Used) },
	}
	text, isID := strings.CutPrefix(c.to.actor, "id:")
	var err error
	switch {
	case isID:
		o.Name = ""
		o.ID, err = actorstore.ParseID(text)
	case c.to.actor != "":
		o.Name = c.to.actor
	case o.Name == "":
		o.ID = info.ID
	default:
		c.to.actor = o.Name
	}
	if err == nil {
		_, err = s.Lower().Fork(ctx, v.Lower().Snapshot, &o)
	}
	if c.to.actor == "" {
		c.to.actor = "id:" + o.ID.String()
	}
	var quota *actorstore.QuotaError
	switch {
	case errors.Is(err, actorstore.ErrExists), errors.Is(err, actorstore.ErrNameTaken):
		return say(err, "there is an actor %s already in %s", c.to.actor, storeurl.Display(c.to.url))
	case errors.As(err, &quota):
		return say(err, "the actor does not fit: it has more than the %d bytes that an actor may store in %s", quota.Limit, storeurl.Display(c.to.url))
	}
	return nameError(c.to.actor, err)
}

// sameDir says whether two stores are the same directory.
func sameDir(urls ...string) bool {
	var dirs []string
	for _, url := range urls {
		dir, is, err := storeurl.Dir(url)
		if err == nil && is {
			dir, err = serving.Followed(dir)
		}
		if err != nil || !is {
			return false // opening it says what is wrong
		}
		dirs = append(dirs, dir)
	}
	return len(slices.Compact(dirs)) == 1
}
