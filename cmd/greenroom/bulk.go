package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/rollout"
	"github.com/greenroomdb/greenroom/internal/serving"
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
		return serving.Usage("either ACTOR, or flags that choose actors")
	case !named && !b.chosen():
		return serving.Usage("say which actors: ACTOR, or flags such as --state, --label or --named")
	case b.how.Rate < 0:
		return serving.Usage("a negative --rate")
	}
	return nil
}

// An opened is a store as it is open to a bulk: here, or with a client of the process that has it.
type opened struct {
	*storeurl.Store
	client *admin.Client // nil if the store is open here
}

// bulkTTL is how long the actor that is being done stays out of reach if the command is killed.
const bulkTTL = 3 * time.Second

// run calls do with each actor of the selection, whose name is as a command is given it.
func (b *bulk) run(ctx context.Context, url string, do func(o opened, actor string) error) error {
	err := serving.WithStore(ctx, url, greenroom.Options{
		MustExist: true, Limits: b.limits, ReadOnly: b.dryRun || b.reads,
		Host: actorstore.HostOptions{TTL: bulkTTL},
	}, func(s *storeurl.Store) error {
		return b.each(ctx, opened{Store: s}, do)
	})
	if !errors.Is(err, kv.ErrStoreInUse) {
		return err
	}
	c, err := storeurl.Ask(ctx, url, err)
	if err != nil {
		return serving.StoreError(url, err)
	}
	defer c.Close()
	return serving.WithStore(ctx, url, greenroom.Options{ReadOnly: true}, func(s *storeurl.Store) error {
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
			fmt.Fprintf(b.stderr, "greenroom: id:%v: %s\n", info.ID, serving.Message(err))
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
	r := &bulkRun{bulk: b, ctx: ctx, opened: o, all: len(actors), failed: failed, do: do, held: map[actorstore.HostID]actorstore.HostInfo{}}
	r.some(actors, b.how)
	if late := r.late; len(late) > 0 && r.ended+len(late) == len(actors) && ctx.Err() == nil {
		r.late, r.last = nil, true
		r.await()
		how := b.how
		how.Canary = max(how.Canary-r.ended, 0)
		r.some(late, how)
	}
	of := len(actors) + failed
	switch {
	case ctx.Err() != nil:
		return say(ctx.Err(), "interrupted after %d of %d actors", r.ended, len(actors))
	case r.ended < len(actors):
		return say(nil, "%d of %d actors failed, and %d were not tried", r.failed, of, len(actors)-r.ended)
	case r.failed > 0:
		return say(nil, "%d of %d actors failed", r.failed, of)
	}
	_, err := fmt.Fprintf(b.stdout, "%d\n", len(actors))
	return err
}

// A bulkRun is what is done to the actors of a selection.
type bulkRun struct {
	*bulk
	opened
	ctx           context.Context
	do            func(o opened, actor string) error
	all           int
	ended, failed int // actors: tried to the end, and in vain, or damaged

	mu   sync.Mutex
	late []string // actors that other hosts have  +checklocks:mu
	held map[actorstore.HostID]actorstore.HostInfo
	last bool // those that other hosts have are failures
}

// some does it to some actors. Those that other hosts have it leaves to the end.
func (r *bulkRun) some(actors []string, how rollout.Options) {
	if most := how.MaxFailures; most > 0 {
		if how.MaxFailures = most - r.failed; how.MaxFailures <= 0 {
			return
		}
	}
	before, ended := r.failed, r.ended
	hide := r.hint()
	rollout.Run(r.ctx, how, actors, func(actor string) error {
		err := r.do(r.opened, actor)
		switch {
		case err == nil || r.done(actor):
			return nil
		case r.postpone(actor, err):
			return rollout.ErrLeft
		}
		return err
	}, func(c rollout.Counts, actor string, err error) {
		hide()
		if err != nil && err != rollout.ErrLeft {
			fmt.Fprintf(r.stderr, "greenroom: %s: %s\n", visibleText(actor), serving.Message(err))
		}
		r.mu.Lock()
		r.ended, r.failed = ended+c.Done-len(r.late), before+c.Failed
		r.mu.Unlock()
		hide = r.hint()
	})
	hide()
}

// postpone leaves an actor to the end that a host has, which may have died, and says whether it did.
func (r *bulkRun) postpone(actor string, err error) bool {
	in := (*actorstore.InUseError)(nil)
	if r.last || !errors.As(err, &in) || in.Host.ID.IsZero() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = append(r.late, actor)
	r.held[in.Host.ID] = in.Host
	return true
}

// await waits until those of the hosts that have died are known to have, by a lease that isn't renewed: their actors are free then.
func (r *bulkRun) await() {
	defer showHint(r.progress, "waiting for hosts that may have ended …")()
	began := time.Now()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for len(r.held) > 0 {
		select {
		case <-look.C:
		case <-r.ctx.Done():
			return
		}
		now := map[actorstore.HostID]actorstore.HostInfo{}
		for h, err := range r.Lower().Hosts(r.ctx) {
			if err != nil {
				return // the actors fail then
			}
			now[h.ID] = h
		}
		maps.DeleteFunc(r.held, func(id actorstore.HostID, was actorstore.HostInfo) bool {
			is, there := now[id]
			return !there || is.Expires.After(was.Expires) || time.Since(began) > was.TTL*5/4
		})
	}
}

// done says whether there is nothing left to do to an actor, since a host was faster.
func (r *bulkRun) done(actor string) (done bool) {
	if r.skip == nil {
		return false
	}
	err := r.View(r.ctx, actor, func(v *greenroom.View) error {
		info := v.Info()
		done = r.skip(&info)
		return nil
	})
	return done && err == nil || errors.Is(err, greenroom.ErrNotFound) // it was removed meanwhile
}

// hint shows how far the run is.
func (r *bulkRun) hint() (hide func()) {
	if r.ended == r.all {
		return func() {}
	}
	const width = 20
	bar := strings.Repeat("=", r.ended*width/r.all) + ">"
	text := fmt.Sprintf("[%-*s] %d of %d", width, bar, r.ended, r.all)
	if r.failed > 0 {
		text += fmt.Sprintf(", %d failed", r.failed)
	}
	return showHint(r.progress, text)
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
