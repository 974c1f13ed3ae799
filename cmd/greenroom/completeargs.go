package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

// Bounds of what a command line proposes.
const (
	completePatience = 2 * time.Second
	maxProposed      = 500
)

// An argCompleter says what arguments there are.
type argCompleter struct{ env *env }

// below makes the commands below cmd propose the names of actors where their usage has ACTOR.
func (c argCompleter) below(cmd *cobra.Command) {
	for _, cmd := range cmd.Commands() {
		c.below(cmd)
		_, usage, _ := strings.Cut(cmd.Use, " ")
		names := strings.Fields(strings.NewReplacer("[", "", "]", "", "{", "", "}", "").Replace(usage))
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 || len(args) >= len(names) || names[len(args)] != "ACTOR" {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return c.actors(cmd.Context(), args[0], word), cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// actors returns names of actors of a store; none of one that can't be read.
func (c argCompleter) actors(ctx context.Context, url, prefix string) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, completePatience)
	defer cancel()
	opts := &actorstore.ActorsOptions{Order: actorstore.OrderName, Prefix: prefix, Limit: maxProposed}
	err := readStore(ctx, target{url: url, env: c.env}, func(s *storeurl.Store) error {
		for info, err := range s.Actors(ctx, opts) {
			if err != nil {
				return err
			}
			names = append(names, visibleText(info.Name))
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return names
}
