package main

import (
	"bufio"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

func newList(e *env) *cobra.Command {
	var json bool
	var o actorstore.ActorsOptions
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
			l := listLayout(json, terminal(e.stdout) != nil)
			keys := len(args) > 1
			for _, flag := range []string{"named", "by-name", "limit"} {
				if keys && cmd.Flags().Changed(flag) {
					return &usageError{"--" + flag + " is for a list of actors, not for the keys of one"}
				}
			}
			if o.Limit < 0 {
				return &usageError{"a negative --limit"}
			}
			args = append(args, "", "")
			return list(cmd.Context(), e, l, listArgs{args[0], args[1], args[2], keys, o})
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "write an array of objects")
	cmd.Flags().StringVar(&o.Prefix, "named", "", "list actors whose names begin with `PREFIX`, by name")
	cmd.Flags().BoolVar(&o.ByName, "by-name", false, "list actors that have a name, by name")
	cmd.Flags().IntVar(&o.Limit, "limit", 0, "list at most `N` actors; 0 means all")
	return cmd
}

// listLayout is the layout of a list: a name stays on its line in all of them.
func listLayout(json, tty bool) layout {
	m := modeList
	switch {
	case json:
		m = modeJSON
	case tty:
		m = modeTable
	}
	l := newLayout(m)
	l.separated = true
	return l
}

type listArgs struct {
	url, actor, prefix string
	keys               bool // of the actor, instead of actors
	actors             actorstore.ActorsOptions
}

func list(ctx context.Context, e *env, l layout, args listArgs) error {
	out := bufio.NewWriter(e.stdout)
	p := l.printer(out)
	var err error
	if args.keys {
		err = view(ctx, args.url, args.actor, func(v *greenroom.View) error {
			return listKeys(ctx, v, p, args.prefix)
		})
	} else {
		err = readStore(ctx, args.url, func(s *storeurl.Store) error {
			return listActors(ctx, s, p, &args.actors)
		})
	}
	return errors.Join(err, out.Flush())
}

func listActors(ctx context.Context, s *storeurl.Store, p printer, o *actorstore.ActorsOptions) error {
	p.begin([]string{"name", "id", "size", "created", "owner"})
	var hosts map[actorstore.HostID]string
	for info, err := range s.Actors(ctx, o) {
		if err == nil && hosts == nil && !info.Host.IsZero() {
			hosts, err = hostNames(ctx, s)
		}
		if err != nil {
			return err
		}
		p.row([]cell{optionalCell(info.Name), textCell(info.ID.String()), intCell(info.Used),
			timeCell(info.Created), optionalCell(hosts[info.Host])})
	}
	p.end()
	return nil
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

// optionalCell is a text, or nothing.
func optionalCell(text string) cell {
	if text == "" {
		return cell{}
	}
	return textCell(text)
}

func listKeys(ctx context.Context, v *greenroom.View, p printer, prefix string) error {
	p.begin([]string{"key", "size", "updated"})
	for entry, err := range v.Lower().List(ctx, actorstore.ListOptions{KeysOnly: true}) {
		if err != nil {
			return err
		}
		words := actorstore.Describe(entry.Key)
		if strings.HasPrefix(words, prefix) {
			p.row([]cell{textCell(words), intCell(int64(entry.Size)), timeCell(entry.Updated)})
		}
	}
	p.end()
	return nil
}

// timeCell is a time in UTC, to the millisecond that is recorded.
func timeCell(t time.Time) cell { return textCell(t.UTC().Format("2006-01-02T15:04:05.000Z")) }
