package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

// onHosts is what the commands of this file say about a store that several processes use.
const onHosts = `Where several processes use the store, the command asks the one that has the actor. If none has it,
the command asks those that tell the address of their API, one after the other, until one runs actors
of that type. See greenroom hosts.`

func newWake(t target) *cobra.Command {
	return &cobra.Command{
		Use:   "wake STORE ACTOR",
		Short: "Wake an actor in the host that has the store open",
		Long: `Wake an actor, so that it does what is due: greenroom host, or a program with a host, runs the
actors of the store. The command ends when the actor is awake; the actor goes to sleep later as
after a call.

` + onHosts,
		Example: "  greenroom wake data counter/lobby",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			t.url, t.actor = args[0], args[1]
			return doAwake(cmd.Context(), t, admin.Wake, &admin.None{})
		},
	}
}

func newSleep(t target) *cobra.Command {
	return &cobra.Command{
		Use:   "sleep STORE ACTOR",
		Short: "Put an actor to sleep in the host that has the store open",
		Long: `Put an actor to sleep, without waiting until it has been idle for long enough: greenroom host, or
a program with a host, runs the actors of the store. Turns and steps that are under way end first.
The command ends when the actor has left memory; what comes later wakes it again.

Connections that don't hibernate keep the actor awake, and so do turns and steps that take more
than 10 seconds: the command says so then, and the status is 1.

` + onHosts,
		Example: "  greenroom sleep data counter/lobby",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			t.url, t.actor = args[0], args[1]
			return doAwake(cmd.Context(), t, admin.Sleep, &admin.None{})
		},
	}
}

func newConnsDisconnect(t target) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "disconnect STORE ACTOR ID",
		Short: "End a connection in the host that has the store open",
		Long: `End a connection of an actor, as if its client had gone: the actor is woken if it sleeps, its code is
told, and so is the client, if it is there. greenroom host, or a program with a host, runs the actors of
the store. ID is as "greenroom conns ls" lists it: text, or hex: and bytes in hexadecimal.

` + onHosts,
		Example: "  greenroom conns disconnect data room/1 0b0a9f0e-9c49-4d6c-8ac6-d6d4d9ed5d0c",
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := parseBytes(args[2], "id"); err != nil {
				return err
			}
			in := &admin.DisconnectIn{ID: args[2], Reason: reason}
			t.url, t.actor = args[0], args[1]
			return doAwake(cmd.Context(), t, admin.Disconnect, in)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "what the client and the actor's code are told")
	return cmd
}

// doAwake does a verb that takes the code of the actor, in the process that has the store open. Where several processes use the store, that is the owner of the
// actor; without an owner the hosts are asked in turn.
func doAwake[In, Out any](ctx context.Context, t target, v *admin.StoreVerb[In, Out], in *In) error {
	if _, files, err := storeurl.Dir(t.url); files || err != nil {
		return doStore(ctx, t, v, in, nil)
	}
	return readStore(ctx, t, func(s *storeurl.Store) error {
		var owner actorstore.HostID
		err := viewIn(ctx, s, t, func(v *greenroom.View) error {
			owner = v.Info().Host
			return nil
		})
		if err != nil {
			return err
		}
		hosts, err := t.runners(ctx, s, owner)
		if err != nil {
			return err
		}
		if len(hosts) == 0 {
			return say(greenroom.ErrUnsupported, "no process that tells the address of its API runs the actors of this store in a host: start one with --admin")
		}
		return asker{t.env}.inTurn(ctx, hosts, func(c *admin.Client) error {
			_, err := v.Ask(ctx, c, t.actor, in)
			return invalid(err)
		})
	})
}

// A runner is a host that may run the code of an actor.
type runner struct {
	host actorstore.HostInfo
	has  string // as asker.dial takes it
}

// runners returns the hosts that may run the code of the actor: owner, while its lease holds, and otherwise those that can be asked.
func (t *target) runners(ctx context.Context, s *storeurl.Store, owner actorstore.HostID) (hosts []runner, err error) {
	for h, err := range s.Lower().Hosts(ctx) {
		switch lives := time.Now().Before(h.Expires); {
		case err != nil:
			return nil, err
		case lives && h.ID == owner:
			return []runner{{h, inUseBy(t.actor, &h)}}, nil
		case lives && h.Address != "":
			hosts = append(hosts, runner{h, fmt.Sprintf("the actor %s may be run by the host %q (%s)", t.actor, visibleText(h.Name), h.ID)})
		}
	}
	return hosts, nil
}

// inTurn runs fn with clients of the hosts in turn, until one of them runs the actor. If none does, the error is that of one that can't be asked, if there is
// one, and else that of the last one.
func (e asker) inTurn(ctx context.Context, hosts []runner, fn func(c *admin.Client) error) (err error) {
	var unasked error
	for _, r := range hosts {
		c, derr := e.dial(ctx, r.has, &r.host, greenroom.ErrUnsupported)
		if derr != nil {
			unasked = cmp.Or(unasked, derr)
			continue
		}
		err = fn(c)
		c.Close()
		if !errors.Is(err, greenroom.ErrNotFound) && !errors.Is(err, greenroom.ErrUnsupported) {
			return err
		}
	}
	return cmp.Or(unasked, err)
}
