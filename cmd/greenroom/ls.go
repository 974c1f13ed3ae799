package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

func newList(e *env) *cobra.Command {
	var json, byName bool
	var o greenroom.ActorsOptions
	cmd := &cobra.Command{
		Use:   "ls STORE [ACTOR [PREFIX]]",
		Short: "List the actors, or the keys of one actor in words",
		Long: `Without ACTOR, list the actors with their names, ids, sizes in bytes, when they
were created, and which host has them open, if several hosts use the store. With
ACTOR, list its keys in words, with the size of each value and when it was written.

Actors come in the order of their ids; with --named or --by-name in that of their
names, and those without a name don't.

PREFIX selects the keys whose words begin with it, compared as text: end it with
a slash to stay in one branch (sqlite/chunks/main/), or leave that out
(user/room: finds user/room:1 and user/room:2).

It is a table on a terminal, and elsewhere lines with fields separated by tabs.`,
		Example: `  greenroom ls data
  greenroom ls data --named room: --limit 20
  greenroom ls data music sqlite/`,
		Args: cobra.RangeArgs(1, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			keys := len(args) > 1
			for _, flag := range []string{"named", "by-name", "limit"} {
				if keys && cmd.Flags().Changed(flag) {
					return &usageError{"--" + flag + " is for a list of actors, not for the keys of one"}
				}
			}
			if o.Limit < 0 {
				return &usageError{"a negative --limit"}
			}
			if byName {
				o.Order = actorstore.OrderName
			}
			if keys {
				return listKeys(cmd.Context(), e, append(args, ""), json)
			}
			return readStore(cmd.Context(), target{url: args[0], env: e}, func(s *storeurl.Store) error {
				return listActors(cmd.Context(), output{e, json, "name id size created owner"}, s, &o)
			})
		},
	}
	logRestFlag(cmd, e)
	cmd.Flags().BoolVar(&json, "json", false, "write an array of objects")
	cmd.Flags().StringVar(&o.Prefix, "named", "", "list actors whose names begin with `PREFIX`, by name")
	cmd.Flags().BoolVar(&byName, "by-name", false, "list actors that have a name, by name")
	cmd.Flags().IntVar(&o.Limit, "limit", 0, "list at most `N` actors; 0 means all")
	return cmd
}

func listActors(ctx context.Context, out output, s *storeurl.Store, o *greenroom.ActorsOptions) error {
	var hosts map[actorstore.HostID]string
	return list(out, s.Actors(ctx, o), func(info greenroom.ActorInfo) (_ []any, err error) {
		if hosts == nil && !info.Host.IsZero() {
			hosts, err = hostNames(ctx, s)
		}
		return []any{maybe(info.Name), info.ID, info.Used, info.Created, maybe(hosts[info.Host])}, err
	})
}

// hostNames returns the hosts that there are, by their names, or their ids if they have
// none. One that has died may still be named by the actors that it had.
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
