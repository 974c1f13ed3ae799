package main

import "github.com/spf13/cobra"

// newGroup returns a command that only has others below it.
func newGroup(use, short string, cmds ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	group.AddCommand(cmds...)
	return group
}
