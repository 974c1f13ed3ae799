package main

import (
	"bufio"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

func newList(e *env) *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use:   "ls STORE [ACTOR [PREFIX]]",
		Short: "List the actors, or the keys of one actor in words",
		Long: `Without ACTOR, list the actors with their names, ids, sizes in bytes, and when they
were created. With ACTOR, list its keys in words, with the size of each value and
when it was written.

PREFIX selects the keys whose words begin with it, compared as text: end it with
a slash to stay in one branch (sqlite/chunks/main/), or leave that out
(user/room: finds user/room:1 and user/room:2).

It is a table on a terminal, and elsewhere lines with fields separated by tabs.`,
		Example: `  greenroom ls data
  greenroom ls data music sqlite/`,
		Args: cobra.RangeArgs(1, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			l := listLayout(json, terminal(e.stdout) != nil)
			keys := len(args) > 1
			args = append(args, "", "")
			return list(cmd.Context(), e, l, listArgs{args[0], args[1], args[2], keys})
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "write an array of objects")
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
}

func list(ctx context.Context, e *env, l layout, args listArgs) error {
	out := bufio.NewWriter(e.stdout)
	p := l.printer(out)
	var err error
	if args.keys {
		err = view(ctx, args.url, args.actor, func(v *actorstore.View) error {
			return listKeys(ctx, v, p, args.prefix)
		})
	} else {
		err = readStore(ctx, args.url, func(s *storeurl.Store) error {
			return listActors(ctx, s, p)
		})
	}
	return errors.Join(err, out.Flush())
}

func listActors(ctx context.Context, s *storeurl.Store, p printer) error {
	p.begin([]string{"name", "id", "size", "created"})
	for info, err := range s.Actors(ctx, nil) {
		if err != nil {
			return err
		}
		name := cell{}
		if info.Name != "" {
			name = textCell(info.Name)
		}
		p.row([]cell{name, textCell(info.ID.String()), intCell(info.Used), timeCell(info.Created)})
	}
	p.end()
	return nil
}

func listKeys(ctx context.Context, v *actorstore.View, p printer, prefix string) error {
	p.begin([]string{"key", "size", "updated"})
	for entry, err := range v.List(ctx, actorstore.ListOptions{KeysOnly: true}) {
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
