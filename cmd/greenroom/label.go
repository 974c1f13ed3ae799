package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/serving"
)

// A labeller is the command that labels actors.
type labeller struct{ *env }

func (e labeller) command() *cobra.Command {
	return &cobra.Command{
		Use:   "label STORE ACTOR [KEY=VALUE…]",
		Short: "List the labels of an actor, or set some of them",
		Long: `Set labels of an actor, by which "greenroom ls --label" and the program find it: all of those
named, or none if one of them can't be set. KEY= removes a label. Without any, list the labels.

A label is what the actor's code sets with Label; the two are the same.`,
		Example: `  greenroom label data room/1 customer=42 plan=
  greenroom ls data --label customer=42`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			t := target{url: args[0], actor: args[1], env: e.env}
			if len(args) == 2 {
				return view(cmd.Context(), t, func(v *greenroom.View) error {
					labels := v.Info().Attributes.Labels
					return list(output{e.env, false, "key value"}, all(slices.Sorted(maps.Keys(labels))), func(key string) ([]any, error) {
						return []any{key, labels[key]}, nil
					})
				})
			}
			in := &admin.SetLabelsIn{Labels: map[string]string{}}
			for _, arg := range args[2:] {
				key, value, ok := strings.Cut(arg, "=")
				if err := actorstore.CheckLabel(key, value); !ok || err != nil {
					return serving.Usage(fmt.Sprintf("%s: a label is KEY=VALUE, with at most %d bytes before the = and %d behind it", arg, actorstore.MaxLabelKey, actorstore.MaxLabelValue))
				}
				in.Labels[key] = value
			}
			_, err := do(cmd.Context(), t, admin.SetLabels, in)
			return err
		},
	}
}
