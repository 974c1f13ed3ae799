package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
)

// A model is a data model beside actors, of which a store has several by their names.
type model[S any] struct {
	// what is kept. That is also the name which is meant if there are several.
	what string
	// names returns those that there are, open opens one, and explain says what is wrong with what was asked for.
	names   func(ctx context.Context, e kv.Engine) ([]string, error)
	open    func(ctx context.Context, e kv.Engine, name string) (*S, error)
	explain func(err error) error
}

// An access is what a command does to a store.
type access int

const (
	reads  access = iota
	writes        // refuses a store, and a name, that isn't there
	makes
)

// A modelCommand is the call of one of the commands on a data model.
type modelCommand[S any] struct {
	*model[S]
	env  *env
	name string // "" for the one that find chooses
	json bool
}

// command returns what each command begins as.
func (m *model[S]) command(e *env) modelCommand[S] { return modelCommand[S]{model: m, env: e} }

// command completes a command.
func (c *modelCommand[S]) command(cmd *cobra.Command, a access, run func(ctx context.Context, s *S, args []string) error) *cobra.Command {
	cmd.Flags().StringVar(&c.name, "name", "", "the `NAME` of the "+c.what+"; without it the only one that there is, or "+c.what)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.on(cmd.Context(), args[0], a, func(s *S) error { return run(cmd.Context(), s, args[1:]) })
	}
	return cmd
}

// withValue makes a command take a last argument from standard input, where it is left out or "-": before the store is
// opened, as the writer may take a while.
func (c *modelCommand[S]) withValue(cmd *cobra.Command, text *[]byte) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if *text, err = c.env.value(cmd.Context(), append([]string{""}, args...)); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

// jsonFlag adds the flag to a command that lists.
func (c *modelCommand[S]) jsonFlag(cmd *cobra.Command, usage string) *cobra.Command {
	cmd.Flags().BoolVar(&c.json, "json", false, usage)
	return cmd
}

// on runs fn with the store that is meant. If it has made what is in url, it says so.
func (c *modelCommand[S]) on(ctx context.Context, url string, a access, fn func(*S) error) error {
	opts := greenroom.Options{MustExist: true, ReadOnly: a == reads}
	run := func(e kv.Engine) error {
		name, err := c.find(ctx, e, url, a == makes)
		if err != nil {
			return err
		}
		s, err := c.open(ctx, e, name)
		if err == nil {
			err = fn(s)
		}
		return c.said(err)
	}
	err := withEngine(ctx, url, storeurl.Reach, opts, run)
	if a != makes || !errors.Is(err, kv.ErrNoStore) {
		return err
	}
	opts.MustExist = false
	return withEngine(ctx, url, storeurl.Reach, opts, func(e kv.Engine) error {
		(&target{url: url, env: c.env}).made("store", storeurl.Display(url))
		return run(e)
	})
}

// said returns err in words for people.
func (c *modelCommand[S]) said(err error) error {
	if err == nil || errors.As(err, new(*errkind.Sentence)) || errors.As(err, new(*serving.UsageError)) {
		return err
	}
	return c.explain(err)
}

// find returns the name of the store that is meant, which need not be there if it is made.
func (c *modelCommand[S]) find(ctx context.Context, e kv.Engine, url string, make bool) (string, error) {
	names, err := c.names(ctx, e)
	if err != nil {
		return "", c.said(err)
	}
	url = storeurl.Display(url)
	all := fmt.Sprintf("%q", names)
	all = all[1 : len(all)-1]
	switch {
	case c.name != "" && (make || slices.Contains(names, c.name)):
		return c.name, nil
	case len(names) == 0 && make:
		return c.what, nil
	case len(names) == 0:
		return "", say(nil, "there are no %s in %s", c.what, url)
	case c.name != "":
		return "", say(nil, "there are no %s with the name %q in %s: those there are have the names %s", c.what, c.name, url, all)
	case len(names) == 1:
		return names[0], nil
	case slices.Contains(names, c.what):
		return c.what, nil
	}
	return "", serving.Usage("say which " + c.what + " by --name, which is one of " + all)
}

// print writes a line about what was done, unless err is an error.
func (c *modelCommand[S]) print(err error, format string, args ...any) error {
	if err == nil {
		_, err = fmt.Fprintf(c.env.stdout, format+"\n", args...)
	}
	return err
}

// A complaint is what a check found.
type complaint struct {
	Key  string `json:"key,omitempty"` // in hexadecimal
	What string `json:"what"`
}

// check returns a command that writes what a check found. The status is 1 if that is anything.
func (c *modelCommand[S]) check(cmd *cobra.Command, check func(ctx context.Context, s *S) ([]complaint, error)) *cobra.Command {
	cmd.Use, cmd.Args = "check STORE", cobra.ExactArgs(1)
	found := 0
	cmd = c.command(cmd, reads, func(ctx context.Context, s *S, _ []string) error {
		problems, err := check(ctx, s)
		if err != nil {
			return err
		}
		found = len(problems)
		return c.problems(problems)
	})
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := run(cmd, args); err != nil || found == 0 {
			return err
		}
		return serving.ErrProblems
	}
	return c.jsonFlag(cmd, "write an object a line")
}

// problems writes what a check found.
func (c *modelCommand[S]) problems(problems []complaint) error {
	if c.json {
		err := lines(c.env.stdout, all(problems), func(p complaint) any { return p })
		if err == nil {
			err = c.env.object(map[string]int{"problems": len(problems)}, "")
		}
		return err
	}
	for _, p := range problems {
		line := oneLine(p.What)
		if p.Key != "" {
			line = p.Key + ": " + line
		}
		if _, err := io.WriteString(c.env.stdout, line+"\n"); err != nil {
			return err
		}
	}
	return c.print(nil, "%s", count(len(problems), "problem"))
}

// lines writes an object for each of list, which row returns.
func lines[T any](w io.Writer, list iter.Seq2[T, error], row func(T) any) error {
	out := bufio.NewWriter(w)
	enc := newJSON(out)
	for item, err := range list {
		if err == nil {
			err = enc.Encode(row(item))
		}
		if err != nil {
			return errors.Join(err, out.Flush())
		}
	}
	return out.Flush()
}
