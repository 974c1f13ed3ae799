package serving

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
	ExitStore  = 3 // the store has failed for good
)

// Run runs a command line with its arguments and returns its exit status. What goes wrong is on the
// standard error of root, once.
func Run(ctx context.Context, root *cobra.Command, args []string) int {
	started := false
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(flagError)
	noteStart(root, &started)
	// A nil slice would make cobra look at the process's own arguments.
	root.SetArgs(append([]string{}, args...))
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return ExitOK
	case err == ErrProblems:
		return ExitFailed // they are the output
	case errors.Is(err, syscall.EPIPE):
		return ExitFailed // the reader of the output has stopped, and knows
	}
	fmt.Fprintf(root.ErrOrStderr(), "%s: %s\n", root.Name(), Redacted(Message(err), args))
	if errors.Is(err, kv.ErrPoisoned) {
		return ExitStore
	}
	if usage := (*UsageError)(nil); started && !errors.As(err, &usage) {
		return ExitFailed
	}
	// Whatever goes wrong before a command begins is about how it was called.
	fmt.Fprintf(root.ErrOrStderr(), "usage: %s\nSee '%s --help'.\n", cmd.UseLine(), cmd.CommandPath())
	return ExitUsage
}

// noteStart makes cmd and the commands below it set started when they begin.
func noteStart(cmd *cobra.Command, started *bool) {
	plainArgs(cmd)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		*started = true
		return run(cmd, args)
	}
	for _, cmd := range cmd.Commands() {
		noteStart(cmd, started)
	}
}
