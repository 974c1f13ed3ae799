package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/internal/serving"
)

// errQuit ends a shell as .quit asks.
var errQuit = errors.New("quit")

// A shell reads SQL and commands that begin with a dot, and runs them.
type shell struct {
	session *session
	signals *serving.Signals
	// errs is where an interactive shell tells of errors before it goes on. When
	// it is nil, the first error ends the shell.
	errs  io.Writer
	depth int // of .read
	timer bool
}

// A statementError is an error with the place of its statement, or of a command
// that begins with a dot.
type statementError struct {
	file   string // "" for the shell's own input
	number int    // of the statement in the file, from 1; 0 for a command
	line   int    // from 1
	undone bool   // a transaction was open, and is rolled back
	err    error
}

func (e *statementError) Error() string {
	var b strings.Builder
	if e.file != "" {
		b.WriteString(e.file + ": ")
	}
	if e.number > 0 {
		fmt.Fprintf(&b, "statement %d, ", e.number)
	}
	fmt.Fprintf(&b, "line %d: %v", e.line, trimmed(e.err))
	if e.undone {
		b.WriteString(" (the open transaction is rolled back)")
	}
	return b.String()
}

func (e *statementError) Unwrap() error { return e.err }

// run reads all of in. Statements that are done stay done, whatever comes later,
// except in a transaction that is still open at the end, which is an error.
func (sh *shell) run(ctx context.Context, in lineSource) error {
	err := sh.feed(ctx, in, "")
	if errors.Is(err, errQuit) {
		err = nil
	}
	if !sh.session.InTransaction() {
		return err
	}
	if rerr := sh.session.Rollback(); rerr != nil {
		return errors.Join(err, rerr)
	}
	var at *statementError
	switch {
	case err == nil:
		return errors.New("the last transaction was not committed: it is rolled back")
	case errors.As(err, &at):
		at.undone = true
	}
	return err
}

// feed runs what in has, which is called file. An interactive shell reports
// errors and goes on; but the first error ends a file that it reads.
func (sh *shell) feed(ctx context.Context, in lineSource, file string) error {
	f := &feeder{shell: sh, split: newSplitter(), file: file}
	for {
		prompt := promptNew
		if f.split.pending() {
			prompt = promptMore
		}
		line, err := in.next(ctx, prompt)
		switch {
		case errors.Is(err, errDropLine):
			f.split.drop()
			continue
		case err == io.EOF:
			if f.goesOn() {
				return nil // what has no semicolon was not meant to run
			}
			return f.last(ctx)
		case err != nil:
			return err
		}
		if err := f.line(ctx, line); err != nil {
			if !f.goesOn() || errors.Is(err, errQuit) || ctx.Err() != nil {
				return err
			}
			f.split.drop()
			sh.report(err)
		}
	}
}

// report tells of an error on a terminal, which knows itself what line it is on.
func (sh *shell) report(err error) {
	if at := (*statementError)(nil); errors.As(err, &at) && at.file == "" {
		err = trimmed(at.err)
	}
	fmt.Fprintf(sh.errs, "error: %s\n", serving.Message(err))
}

// A feeder is a shell with one input.
type feeder struct {
	*shell
	split *splitter
	file  string
	count int // of statements
}

// goesOn says whether errors don't end this input.
func (f *feeder) goesOn() bool { return f.errs != nil && f.file == "" }

// line takes one line with its line feed. On a terminal an interrupt ends what runs, and drops the rest of the line.
func (f *feeder) line(ctx context.Context, line string) error {
	ctx, done := f.interruptible(ctx)
	defer done()
	if !f.split.pending() && strings.HasPrefix(line, ".") {
		f.split.skip()
		return f.place(f.dot(ctx, line))
	}
	f.split.add(line)
	for p, ok := f.split.next(); ok; p, ok = f.split.next() {
		if ctx.Err() != nil { // it was too late for the statement before
			return f.place(serving.ErrInterrupted)
		}
		if err := f.execute(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// place says where a command failed, if what it read doesn't say it already.
func (f *feeder) place(err error) error {
	if at := (*statementError)(nil); err == nil || errors.Is(err, errQuit) || errors.As(err, &at) {
		return err
	}
	return &statementError{file: f.file, line: f.split.line, err: err}
}

// last runs what the input ends with, with no semicolon.
func (f *feeder) last(ctx context.Context) error {
	if p, ok := f.split.rest(); ok {
		return f.execute(ctx, p)
	}
	return nil
}

// interruptible returns a context that ends, on a terminal, with an interrupt, which ends nothing else until done is called.
func (f *feeder) interruptible(ctx context.Context) (_ context.Context, done func()) {
	if f.errs == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	release := f.signals.Catch(cancel)
	return ctx, func() {
		release()
		cancel()
	}
}

// execute runs p.
func (f *feeder) execute(ctx context.Context, p piece) error {
	start := time.Now()
	ran, err := f.session.run(ctx, p)
	f.count += ran
	if f.timer && ran > 0 && err == nil {
		fmt.Fprintf(f.session.out, "time: %v\n", time.Since(start).Round(time.Microsecond))
		err = f.session.out.Flush()
	}
	if at := (*statementError)(nil); errors.As(err, &at) {
		at.file, at.number = f.file, f.count
	}
	return err
}
