package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
)

// A bulk is what a command does to all actors of a selection, one after the other unless parallel says otherwise.
type bulk struct {
	*env
	selection
	dryRun   bool
	reads    bool                              // what is done only reads
	rate     float64                           // actors a second; 0: without bound
	skip     func(a *greenroom.ActorInfo) bool // leaves actors out; may be nil
	parallel int                               // how many are done at a time; 0 means one
	canary   int                               // so many are done before the others, one after the other, and these only if none failed
	most     int                               // after so many failures no other is begun; 0: without bound
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
	cmd.Flags().Float64Var(&b.rate, "rate", 0, "at most `N` actors a second; 0 means as fast as it goes")
}

// parse checks the flags, of which one must choose unless one actor is named.
func (b *bulk) parse(named bool) error {
	switch err := b.selection.parse(time.Now()); {
	case err != nil:
		return err
	case named && (b.chosen() || b.dryRun || b.rate != 0 || b.Limit != 0):
		return &usageError{"either ACTOR, or flags that choose actors"}
	case !named && !b.chosen():
		return &usageError{"say which actors: ACTOR, or flags such as --state, --label or --named"}
	case b.rate < 0:
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
	canary := min(b.canary, len(actors))
	r := &bulkRun{bulk: b, began: time.Now(), all: len(actors), failed: failed, do: func(actor string) error { return do(o, actor) }}
	if r.some(ctx, actors[:canary], 1); canary == 0 || r.failed == failed {
		r.some(ctx, actors[canary:], max(b.parallel, 1))
	}
	switch {
	case ctx.Err() != nil:
		return say(ctx.Err(), "interrupted after %d of %d actors", r.done, len(actors))
	case r.tried < len(actors):
		return say(nil, "%d of %d actors failed, and %d were not tried", r.failed, len(actors)+failed, len(actors)-r.tried)
	case r.failed > 0:
		return say(nil, "%d of %d actors failed", r.failed, len(actors)+failed)
	}
	_, err := fmt.Fprintf(b.stdout, "%d\n", len(actors))
	return err
}

// A bulkRun is what is done to actors.
type bulkRun struct {
	*bulk
	began time.Time
	all   int
	do    func(actor string) error

	mu                  sync.Mutex
	tried, done, failed int // actors: begun, at an end, and in vain
	hide                func()
}

// some does it to some actors, so many at a time.
func (r *bulkRun) some(ctx context.Context, actors []string, at int) {
	free := make(chan struct{}, at)
	var working sync.WaitGroup
	defer working.Wait()
	for _, actor := range actors {
		free <- struct{}{}
		r.mu.Lock()
		n, enough := r.tried, r.most > 0 && r.failed >= r.most
		r.mu.Unlock()
		if enough || r.pace(ctx, r.began, n) != nil {
			return
		}
		r.mu.Lock()
		r.tried++
		r.mu.Unlock()
		working.Go(func() {
			defer func() { <-free }()
			r.one(ctx, actor)
		})
	}
}

// one does it to one actor, and tells how far the run is.
func (r *bulkRun) one(ctx context.Context, actor string) {
	r.hint()
	err := r.do(actor)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hide()
	r.hide = func() {}
	if ctx.Err() != nil {
		return
	}
	r.done++
	if err != nil {
		r.failed++
		fmt.Fprintf(r.stderr, "greenroom: %s: %s\n", visibleText(actor), message(err))
	}
}

// hint shows which actor is being done.
func (r *bulkRun) hint() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hide != nil {
		r.hide()
	}
	r.hide = showHint(r.progress, fmt.Sprintf("%d of %d …", r.done+1, r.all))
}

// pace waits until the actor of that number may be done, counted from 0.
func (b *bulk) pace(ctx context.Context, began time.Time, n int) error {
	if b.rate == 0 {
		return ctx.Err()
	}
	t := time.NewTimer(time.Until(began.Add(time.Duration(float64(n) / b.rate * float64(time.Second)))))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
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
