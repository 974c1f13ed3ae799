package main

import (
	"context"
	"os"

	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/visible"
)

func main() {
	ctx, sig, stop := serving.WatchSignals(context.Background())
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
	e.stderr = visible.Writer(e.stderr)
	return serving.Run(ctx, newRoot(e), args)
}
