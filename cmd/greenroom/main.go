package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/greenroomdb/greenroom/kv"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitStore  = 3 // the store has failed for good
)

func main() {
	ctx, sig, stop := watchSignals(context.Background())
	e := &env{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		getenv: os.Getenv, signals: sig,
	}
	if terminal(os.Stderr) != nil {
		e.progress = os.Stderr
	}
	code := run(ctx, e, os.Args[1:])
	stop()
	os.Exit(code)
}

// run runs the program with its arguments and returns its exit status. What went
// wrong is on stderr, once.
func run(ctx context.Context, e *env, args []string) int {
	e.stderr = visibleWriter{e.stderr}
	started := false
	root := newRoot(e, &started)
	// A nil slice would make cobra look at the process's own arguments.
	root.SetArgs(append([]string{}, args...))
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitOK
	case err == errProblems:
		return exitFailed // they are the output
	case errors.Is(err, syscall.EPIPE):
		return exitFailed // the reader of the output has stopped, and knows
	}
	fmt.Fprintf(e.stderr, "greenroom: %s\n", redacted(message(err), args))
	if errors.Is(err, kv.ErrPoisoned) {
		return exitStore
	}
	if usage := (*usageError)(nil); started && !errors.As(err, &usage) {
		return exitFailed
	}
	// Whatever goes wrong before a command begins is about how it was called.
	fmt.Fprintf(e.stderr, "usage: %s\nSee '%s --help'.\n", cmd.UseLine(), cmd.CommandPath())
	return exitUsage
}
