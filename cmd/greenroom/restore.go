package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

// A restorer is the command, with its flags.
type restorer struct {
	env   *env
	dest  destinationFlags
	at    string
	actor string
	as    string
}

func (c *restorer) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore DEST STORE",
		Short: "Make a store, or one actor, as it was, of a backup",
		Long: `Make the store STORE, a folder that isn't there yet or is empty, of the backup in DEST: as of its last
state, or of the last commit at --at or before. The command says which state it has chosen. The store is
checked as greenroom check does it before it gets its name, so it is there as a whole and sound, or not at
all.

--at takes a bookmark, as greenroom backup ls shows them, or a time: 2026-11-27T18:30:00+01:00, or
"2026-11-27 18:30" in UTC, or how long ago it was: 90m.

With --actor, STORE is a store that is there, and gets the actor as it was then, under the name --as if its own
isn't free.
What the actor was about to do is restored, too. A host that has STORE open does that itself, of the
backup that it writes: DEST is then only asked for the state. Little more is read than the actor takes.

` + destinationHelp,
		Example: `  greenroom restore s3://backups/data data.new
  greenroom restore s3://backups/data data.new --at "2026-11-27 18:30"
  greenroom restore s3://backups/data data --actor chat/lobby --as chat/lobby.old --at 90m`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.actor == "" && c.as != "" {
				return &usageError{"--as is for --actor"}
			}
			c.as = cmp.Or(c.as, c.actor)
			if _, dir, err := storeurl.Parse(args[1]); err == nil {
				if err := apart(args[0], dir); err != nil {
					return err
				}
			}
			return c.dest.withArchive(cmd.Context(), args[0], func(a *archive.Archive) error {
				return c.run(cmd.Context(), a, args[1])
			})
		},
	}
	c.dest.flags(cmd)
	cmd.Flags().StringVar(&c.at, "at", "", "`time` or bookmark of the state; default the last one")
	cmd.Flags().StringVar(&c.actor, "actor", "", "restore the actor of this `name` alone")
	cmd.Flags().StringVar(&c.as, "as", "", "`name` of the new actor")
	return cmd
}

// run restores.
func (c *restorer) run(ctx context.Context, a *archive.Archive, url string) error {
	mark, made, err := c.state(ctx, a)
	if err != nil {
		return err
	}
	says := "the state " + mark.String()
	if !made.IsZero() {
		says += " of " + stamp(made)
	}
	if c.actor == "" {
		err = c.whole(ctx, a, mark, url)
	} else {
		err = c.one(ctx, a, mark, url)
	}
	if err == nil {
		_, err = fmt.Fprintf(c.env.stdout, "restored %s\n", says)
	}
	return err
}

// state returns which state is restored, and its time if that is known.
func (c *restorer) state(ctx context.Context, a *archive.Archive) (archive.Bookmark, time.Time, error) {
	if c.at == "" {
		return a.Last(ctx)
	}
	if mark, err := archive.ParseBookmark(c.at); err == nil {
		return mark, time.Time{}, nil
	}
	at, err := parseTime(c.at, time.Now())
	if err != nil {
		return archive.Bookmark{}, time.Time{}, err
	}
	return a.At(ctx, at)
}

// whole makes the whole store, which it checks.
func (c *restorer) whole(ctx context.Context, a *archive.Archive, mark archive.Bookmark, url string) error {
	e := c.env
	kind, dir, err := storeurl.Parse(url)
	if err != nil {
		return storeError(url, err)
	}
	if kind != "pebble" {
		return &usageError{"a backup is restored to a directory"}
	}
	p := newProgress(e.progress)
	defer p.end()
	err = a.Restore(ctx, mark, dir, &archive.RestoreOptions{Progress: p.show, Check: func(ctx context.Context, dir string) error {
		p.end()
		check := &storeCheck{env: e, url: "pebble:" + dir, out: bufio.NewWriter(e.stdout), hide: showHint(e.progress, "checking …")}
		return check.run(ctx, nil)
	}})
	switch {
	case errors.Is(err, fs.ErrExist):
		return say(err, "%s is not empty: the restored store needs a directory of its own", dir)
	case errors.Is(err, errProblems):
		return say(err, "the state has the problems above, so %s was not made", dir)
	}
	return err
}

// away restores the last state to a folder that is removed.
func (c *restorer) away(ctx context.Context, a *archive.Archive) (err error) {
	mark, _, err := a.Last(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "greenroom-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return c.whole(ctx, a, mark, "pebble:"+filepath.Join(dir, "store"))
}

// one restores one actor, here or by the process that has the store open.
func (c *restorer) one(ctx context.Context, a *archive.Archive, mark archive.Bookmark, url string) error {
	p := newProgress(c.env.progress)
	defer p.end()
	in := &admin.RestoreIn{Bookmark: mark.String(), To: c.as, Progress: func(used int64) { p.show(used, used) }}
	err := withStore(ctx, url, greenroom.Options{MustExist: true, Limits: c.env.limits}, func(s *storeurl.Store) error {
		on := admin.On{Store: s.Store, Archive: func(context.Context) (*archive.Archive, error) { return a, nil }}
		return invalid(admin.Restore.Do(ctx, on, c.actor, in))
	})
	if !elsewhere(err) {
		return err
	}
	t := target{url: url, actor: c.actor, env: c.env}
	client, err := t.dial(ctx, err)
	if err != nil {
		return err
	}
	defer client.Close()
	return invalid(admin.Restore.Ask(ctx, client, c.actor, in))
}
