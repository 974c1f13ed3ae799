package main

import (
	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

func newHosts(out output) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hosts STORE",
		Short: "List the hosts of a store that several processes use",
		Long: `List the hosts that have actors of a store in PostgreSQL: their ids and names, the addresses of
their APIs, when their leases end unless they renew them, by their own clocks, and how long a
renewal lasts. A process has no row before it opens its first actor, and one that died has
its row until another host takes its actors. A store in a folder has no hosts.`,
		Example: "  greenroom hosts postgres://shop@db.lan/shop",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return readStore(cmd.Context(), target{url: args[0], env: out.env}, func(s *storeurl.Store) error {
				return list(out, s.Lower().Hosts(cmd.Context()), func(h actorstore.HostInfo) ([]any, error) {
					return []any{h.ID, h.Name, maybe(h.Address), h.Expires, h.TTL}, nil
				})
			})
		},
	}
	cmd.Flags().BoolVar(&out.json, "json", false, "write an array of objects")
	return cmd
}
