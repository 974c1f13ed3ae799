package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/serving"
)

func newConns(e *env) *cobra.Command {
	return newGroup("conns", "Look at the connections of an actor", newConnsList(e), newConnsDiscard(target{env: e}), newConnsDisconnect(target{env: e}))
}

func newConnsList(e *env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls STORE ACTOR",
		Short: "List the connections that an actor has stored",
		Long: `List the connections of an actor that hibernate, as they were saved last, in the order
of their ids: the gateway that the client is connected to, and the request there; the
indices of the last messages that came in and went out; the events that the connection
has subscribed to; the path of its request; the size of its record, and when that was
written. One that can't be read has a problem instead, and so have rows that belong to no
connection, for which there is no id either. An id that doesn't print, or isn't UTF-8, is
hex: and its bytes in hexadecimal.

It is a table on a terminal, and elsewhere lines with fields separated by tabs. JSON has
the parameters, the state and the headers too.`,
		Example: `  greenroom conns ls data lobby
  greenroom conns ls --json data lobby`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return listConns(cmd.Context(), e, args[0], args[1], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write an array of objects")
	return cmd
}

func newConnsDiscard(t target) *cobra.Command {
	var stray bool
	cmd := &cobra.Command{
		Use:   "discard STORE ACTOR [ID]",
		Short: "Delete the record of a connection that can't be read",
		Long: `Delete what is stored of a connection that can't be read: one that "greenroom conns ls"
lists with a problem of its record or its rows. It is not for any other. ID is as it is
listed: text, or hex: and bytes in hexadecimal.

With --stray instead of an ID, delete the rows that belong to no connection, which have no
id that one could name.`,
		Example: `  greenroom conns discard data lobby 0b0a9f0e-9c49-4d6c-8ac6-d6d4d9ed5d0c
  greenroom conns discard --stray data lobby`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case stray && len(args) == 3:
				return serving.Usage("--stray is for rows without an id")
			case !stray && len(args) == 2:
				return serving.Usage("neither an ID nor --stray")
			}
			in := &admin.DiscardConnectionIn{ID: append(args, "")[2], Stray: stray}
			if _, err := parseBytes(in.ID, "id"); err != nil {
				return err
			}
			t.url, t.actor = args[0], args[1]
			_, err := do(cmd.Context(), t, admin.DiscardConnection, in)
			return err
		},
	}
	cmd.Flags().BoolVar(&stray, "stray", false, "delete the rows that belong to no connection")
	return cmd
}

func listConns(ctx context.Context, e *env, url, actor string, asJSON bool) error {
	return view(ctx, target{url: url, actor: actor, env: e}, func(v *greenroom.View) error {
		if asJSON {
			return list(output{e, true, ""}, v.Connections(), func(c conn.Stored) ([]any, error) {
				return []any{jsonCell(admin.NewConnection(c))}, nil
			})
		}
		const columns = "id gateway request in out subscriptions path size updated problem"
		return list(output{e, false, columns}, v.Connections(), func(c conn.Stored) ([]any, error) {
			j := admin.NewConnection(c)
			if c.Record != nil {
				j.Problem = "" // that is of a value, which is not shown
			}
			return []any{j.ID, maybe(j.Gateway), maybe(j.Request), j.In, j.Out, maybe(strings.Join(j.Subscriptions, " ")),
				maybe(j.Path), j.Size, c.Updated, maybe(j.Problem)}, nil
		})
	})
}
