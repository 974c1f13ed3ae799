package main

import (
	"iter"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/internal/limits"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

func newLimits(out output) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "limits STORE [NAME [VALUE]]",
		Short: "List the limits of actors together, and the actors that wait",
		Long: `List what the limits that actors share have given: their names, the value of the label for which
each one is, the permits that are held, how many claims wait (10000 are that many or more), and
when the tokens of a rate are all there again. With NAME, the limit of that name. With VALUE, which
is "" for a limit without a label, the actors that hold permits of it, with the time at which a
permit ends unless it is renewed, and those that wait, by what is served in turn and in their order.

A limit of which nothing is held, and for which no actor waits, isn't stored. Its bounds are those
of the program.`,
		Example: `  greenroom limits data
  greenroom limits data calls ''`,
		Args: cobra.RangeArgs(1, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			return readStore(cmd.Context(), target{url: args[0], env: out.env}, func(s *storeurl.Store) error {
				if len(args) == 3 {
					out.columns = "state actor part until fair"
					return list(out, claims(cmd, s, args[1], args[2]), func(row []any) ([]any, error) { return row, nil })
				}
				name := ""
				if len(args) == 2 {
					name = args[1]
				}
				return list(out, limits.List(cmd.Context(), s.Engine(), name, nil), func(l limits.Info) ([]any, error) {
					return []any{l.Name, maybe(l.Value), l.Held, l.Waiting, l.Full}, nil
				})
			})
		},
	}
	cmd.Flags().BoolVar(&out.json, "json", false, "write an array of objects")
	return cmd
}

// claims yields a row for each permit that is held of a limit, and for each claim that waits.
func claims(cmd *cobra.Command, s *storeurl.Store, name, value string) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		for p, err := range limits.Permits(cmd.Context(), s.Engine(), name, value) {
			if !yield([]any{"held", p.Actor, p.Part, p.Until, nil}, err) || err != nil {
				return
			}
		}
		for h, err := range limits.Line(cmd.Context(), s.Engine(), name, value) {
			if !yield([]any{"waits", h.Actor, h.Part, nil, maybe(h.Fair)}, err) || err != nil {
				return
			}
		}
	}
}
