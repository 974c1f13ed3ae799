package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/rollout"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
)

// A bulk is what a command does to all actors of a selection, one after the other unless parallel says otherwise.
type bulk struct {
	*env
	selection
	dryRun bool
	reads  bool // what is done only reads
	how    rollout.Options
	skip   func(a *greenroom.ActorInfo) bool // leaves actors out; may be nil
}

// bulkHelp is what the help of such commands says.
const bulkHelp = `Instead of ACTOR, flags choose the actors: all that meet each of them. --dry-run lists them, and does nothing. What can't be done to an
actor is written to standard error, and the others are done all the same; the status is 1 then. If the command is
interrupted, or has failed for some, it goes on when it is run again, as long as what it does takes actors out of the selection.`

// flags adds the flags that choose the actors, and those that say how.
func (b *bulk) flags(cmd *cobra.Command) {
	b.selection.flags(cmd)
	cmd.Flags().IntVar(&b.Limit, "limit", 0, "at most `N` actors; 0 means all")
	cmd.Flags().BoolVar(&b.dryRun, "dry-run", false, "list the actors that the flags choose, and do nothing")
	cmd.Flags().Float64Var(&b.how.Rate, "rate", 0, "at most `N` actors a second; 0 means as fast as it goes")
}

// parse checks the flags, of which one must choose unless one actor is named.
func (b *bulk) parse(named bool) error {
	switch err := b.selection.parse(time.Now()); {
	case err != nil:
		return err
	case named && (b.chosen() || b.dryRun || b.how.Rate != 0 || b.Limit != 0):
		return &usageError{"either ACTOR, or flags that choose actors"}
	case !named && !b.chosen():
		return &usageError{"say which actors: ACTOR, or flags such as --state, --label or --named"}
	case b.how.Rate < 0:
		return &usageError{"a negative --rate"}
	}
	return nil
}

// An opened is a store as it is open to a bulk: here, or with a client of the process that has it.
type opened struct {
	*storeurl.Store
	client *admin.Client // nil if the store is open here
}

// run calls do with each actor of the selection, whose name is as a command is given it.
func (b *bulk) run(ctx context.Context, url string, do func(o opened, actor string) error) error {
	err := withStore(ctx, url, greenroom.Options{MustExist: true, Limits: b.limits, ReadOnly: b.dryRun || b.reads}, func(s *storeurl.Store) error {
		return b.each(ctx, opened{Store: s}, do)
	})
	if !errors.Is(err, kv.ErrStoreInUse) {
		return err
	}
	c, err := storeurl.Ask(ctx, url, err)
	if err != nil {
		return storeError(url, err)
	}
	defer c.Close()
	return withStore(ctx, url, greenroom.Options{ReadOnly: true}, func(s *storeurl.Store) error {
		return b.each(ctx, opened{s, c}, do)
	})
}

// each is run in a store that is open. The actors are those that the selection has when it begins: what is done to one doesn't bring it in once more.
func (b *bulk) each(ctx context.Context, o opened, do func(o opened, actor string) error) error {
	var actors []string
	failed := 0
	for info, err := range o.Actors(ctx, &b.ActorsOptions) {
		switch {
		case err != nil && info.ID.IsZero():
			return err
		case err != nil: // the actor is damaged
			failed++
			fmt.Fprintf(b.stderr, "greenroom: id:%v: %s\n", info.ID, message(err))
		case b.skip != nil && b.skip(&info):
		case info.Name == "":
			actors = append(actors, "id:"+info.ID.String())
		default:
			actors = append(actors, info.Name)
		}
	}
	if b.dryRun {
		return list(output{b.env, false, "name"}, all(actors), func(name string) ([]any, error) { return []any{name}, nil })
	}
	how, todo := b.how, actors
	if how.MaxFailures -= failed; b.how.MaxFailures > 0 && how.MaxFailures <= 0 {
		todo = nil
	}
	of := len(actors) + failed
	hide := b.hint(0, len(actors), failed)
	got := rollout.Run(ctx, how, todo, func(actor string) error {
		err := do(o, actor)
		if err != nil && b.done(ctx, o, actor) {
			return nil
		}
		return err
	}, func(c rollout.Counts, actor string, err error) {
		hide()
		if err != nil {
			fmt.Fprintf(b.stderr, "greenroom: %s: %s\n", visibleText(actor), message(err))
		}
		hide = b.hint(c.Done, len(actors), failed+c.Failed)
	})
	hide()
	switch failed += got.Failed; {
	case ctx.Err() != nil:
		return say(ctx.Err(), "interrupted after %d of %d actors", got.Done, len(actors))
	case got.Tried < len(actors):
		return say(nil, "%d of %d actors failed, and %d were not tried", failed, of, len(actors)-got.Tried)
	case failed > 0:
		return say(nil, "%d of %d actors failed", failed, of)
	}
	_, err := fmt.Fprintf(b.stdout, "%d\n", len(actors))
	return err
}

// done says whether there is nothing left to do to an actor, since a host was faster.
func (b *bulk) done(ctx context.Context, o opened, actor string) (done bool) {
	if b.skip == nil {
		return false
	}
	err := o.View(ctx, actor, func(v *greenroom.View) error {
		info := v.Info()
		done = b.skip(&info)
		return nil
	})
	return done && err == nil
}

// hint shows how far a run is.
func (b *bulk) hint(done, of, failed int) (hide func()) {
	if done == of {
		return func() {}
	}
	const width = 20
	bar := strings.Repeat("=", done*width/of) + ">"
	text := fmt.Sprintf("[%-*s] %d of %d", width, bar, done, of)
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	return showHint(b.progress, text)
}

// doAll has a verb done to the actor that args name, or to all of the selection.
func doAll[In, Out any](ctx context.Context, b *bulk, args []string, v *admin.Verb[In, Out], in *In) error {
	if err := b.parse(len(args) == 2); err != nil {
		return err
	}
	if len(args) == 2 {
		_, err := do(ctx, target{url: args[0], actor: args[1], env: b.env}, v, in)
		return err
	}
	return b.run(ctx, args[0], func(o opened, actor string) error {
		if o.client != nil {
			_, err := v.Ask(ctx, o.client, actor, false, in)
			return invalid(err)
		}
		t := target{url: args[0], actor: actor, env: b.env}
		err := t.own(ctx, o.Store, func(a *greenroom.Actor) error {
			_, err := v.Do(ctx, a, actor, in)
			return invalid(err)
		})
		if !elsewhere(err) {
			return err
		}
		return t.ask(ctx, err, func(c *admin.Client, _ *storeurl.Store, _ bool) error {
			_, err := v.Ask(ctx, c, actor, false, in)
			return invalid(err)
		})
	})
}
