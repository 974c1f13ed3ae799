package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

func newList(e *env) *cobra.Command {
	var json, byName bool
	var o selection
	cmd := &cobra.Command{
		Use:   "ls STORE [ACTOR [PREFIX]]",
		Short: "List the actors, or the keys of one actor in words",
		Long: `Without ACTOR, list the actors with their names, ids, sizes in bytes, when they
were created, and which host has them open, if several hosts use the store. With
ACTOR, list its keys in words, with the size of each value and when it was written. Of an
actor with a workflow the state is listed, and its labels.

Actors come in the order of their ids; with --named or --by-name in that of their
names, and those without a name don't; and with other flags in an order that suits these,
unless --order says which.

` + searchHelp + `

PREFIX selects the keys whose words begin with it, compared as text: end it with
a slash to stay in one branch (sqlite/chunks/main/), or leave that out
(user/room: finds user/room:1 and user/room:2).

It is a table on a terminal, and elsewhere lines with fields separated by tabs.`,
		Example: `  greenroom ls data
  greenroom ls data --named room: --limit 20
  greenroom ls data --label customer=42
  greenroom ls data --idle 30d --order slept --json
  greenroom ls data music sqlite/`,
		Args: cobra.RangeArgs(1, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			keys := len(args) > 1
			for _, flag := range []string{"named", "by-name", "limit", "label", "state", "stuck", "schema-below", "wakes-before", "idle", "order"} {
				if keys && cmd.Flags().Changed(flag) {
					return serving.Usage("--" + flag + " is for a list of actors, not for the keys of one")
				}
			}
			if err := o.parse(time.Now()); err != nil {
				return err
			}
			if byName {
				o.Order = actorstore.OrderName
			}
			if keys {
				return listKeys(cmd.Context(), e, append(args, ""), json)
			}
			return readStore(cmd.Context(), target{url: args[0], env: e}, func(s *storeurl.Store) error {
				return listActors(cmd.Context(), output{e, json, o.columns()}, s, &o)
			})
		},
	}
	logRestFlag(cmd, e)
	cmd.Flags().BoolVar(&json, "json", false, "write an array of objects")
	cmd.Flags().BoolVar(&byName, "by-name", false, "list actors that have a name, by name")
	o.listFlags(cmd)
	return cmd
}

// columns are those of a list of actors: what it is chosen or ordered by is shown.
func (s *selection) columns() string {
	columns := "name id size created owner state labels"
	if s.Order == actorstore.OrderSince || s.Workflow != nil || s.Stuck {
		columns += " since"
	}
	if s.Order == actorstore.OrderSchema || s.SchemaBelow != 0 {
		columns += " schema"
	}
	if s.Order == actorstore.OrderWake || !s.WakesBefore.IsZero() {
		columns += " wakes"
	}
	if s.Order == actorstore.OrderSlept || !s.SleptBefore.IsZero() {
		columns += " slept"
	}
	return columns
}

func listActors(ctx context.Context, out output, s *storeurl.Store, o *selection) error {
	var hosts map[actorstore.HostID]string
	return list(out, s.Actors(ctx, &o.ActorsOptions), func(info greenroom.ActorInfo) (_ []any, err error) {
		if hosts == nil && !info.Host.IsZero() {
			hosts, err = hostNames(ctx, s)
		}
		at := info.Attributes
		cells := map[string]any{
			"name": maybe(info.Name), "id": info.ID, "size": info.Used, "created": info.Created, "owner": maybe(hosts[info.Host]),
			"state": maybe(at.Workflow), "labels": labelsInWords(at.Labels), "since": at.Since, "schema": at.Schema, "wakes": info.Wake.At, "slept": at.Slept,
		}
		if out.json && at.Labels != nil {
			cells["labels"] = jsonCell(at.Labels)
		}
		if at.Stuck {
			cells["state"] = at.Workflow + ", stuck"
		}
		var row []any
		for _, column := range strings.Fields(out.columns) {
			row = append(row, cells[column])
		}
		return row, err
	})
}

// hostNames returns the hosts, by their names, or by their ids if they don't have names. A
// dead host may still be named by the actors that it owned.
func hostNames(ctx context.Context, s *storeurl.Store) (map[actorstore.HostID]string, error) {
	names := map[actorstore.HostID]string{}
	for host, err := range s.Lower().Hosts(ctx) {
		if err != nil {
			return nil, err
		}
		if names[host.ID] = host.Name; host.Name == "" {
			names[host.ID] = host.ID.String()
		}
	}
	return names, nil
}

// listKeys lists the keys of the actor args[1] whose words begin with args[2].
func listKeys(ctx context.Context, e *env, args []string, json bool) error {
	return view(ctx, target{url: args[0], actor: args[1], env: e}, func(v *greenroom.View) error {
		keys := v.Lower().List(ctx, actorstore.ListOptions{KeysOnly: true})
		return list(output{e, json, "key size updated"}, keys, func(k actorstore.Entry) ([]any, error) {
			words := actorstore.Describe(k.Key)
			if !strings.HasPrefix(words, args[2]) {
				return nil, nil
			}
			return []any{words, k.Size, k.Updated}, nil
		})
	})
}
