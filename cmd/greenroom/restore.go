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
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

// A restorer is the command, with its flags.
type restorer struct {
	env   *env
	to    string // DEST
	dest  serving.DestinationFlags
	at    string
	actor string
	as    string
	undo  bool
	wake  bool
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
isn't free. With --undo the actor itself becomes what it was, in one commit: what it had until then is in DEST,
too, and the command says how to go back to that. Messages that it has sent since aren't undone; the
command lists them. Its connections end.

What the actor was about to do is restored, too, and waits until the actor is called, or woken: by --wake, or later
by greenroom wake. A host that has STORE open does all of it itself, of the backup that it writes:
DEST is then only asked for the state. Little more is read than the actor takes.

` + serving.DestinationHelp,
		Example: `  greenroom restore s3://backups/data data.new
  greenroom restore s3://backups/data data.new --at "2026-11-27 18:30"
  greenroom restore s3://backups/data data --actor chat/lobby --as chat/lobby.old --at 90m
  greenroom restore s3://backups/data data --actor chat/lobby --undo --at 5m`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case c.actor == "" && (c.as != "" || c.undo || c.wake):
				return serving.Usage("--as, --undo and --wake are for --actor")
			case c.undo && (c.as != "" || c.at == ""):
				return serving.Usage("--undo takes --at, and no --as: the actor keeps its name")
			}
			c.to, c.as = args[0], cmp.Or(c.as, c.actor)
			if _, dir, err := storeurl.Parse(args[1]); err == nil {
				if err := serving.Apart(args[0], dir); err != nil {
					return err
				}
			}
			return withArchive(cmd.Context(), &c.dest, args[0], func(a *archive.Archive) error {
				return c.run(cmd.Context(), a, args[1])
			})
		},
	}
	c.dest.Flags(cmd)
	cmd.Flags().StringVar(&c.at, "at", "", "`time` or bookmark of the state; default the last one")
	cmd.Flags().StringVar(&c.actor, "actor", "", "restore the actor of this `name` alone")
	cmd.Flags().StringVar(&c.as, "as", "", "`name` of the new actor")
	cmd.Flags().BoolVar(&c.undo, "undo", false, "make the actor itself what it was")
	cmd.Flags().BoolVar(&c.wake, "wake", false, wakeHelp)
	return cmd
}

// run restores.
func (c *restorer) run(ctx context.Context, a *archive.Archive, url string) error {
	if c.undo {
		return c.back(ctx, url)
	}
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
		return serving.StoreError(url, err)
	}
	if kind != "pebble" {
		return serving.Usage("a backup is restored to a directory")
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
	case errors.Is(err, serving.ErrProblems):
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

// one restores one actor as a new one.
func (c *restorer) one(ctx context.Context, a *archive.Archive, mark archive.Bookmark, url string) error {
	p := newProgress(c.env.progress)
	defer p.end()
	in := &admin.RestoreIn{Bookmark: mark.String(), To: c.as, Wake: c.wake, Progress: func(used int64) { p.show(used, used) }}
	_, err := restoreActor(ctx, c, url, admin.Restore, in, func(s *storeurl.Store, do func(admin.On) error) error {
		return do(admin.On{Store: s.Store, Archive: func(context.Context) (*archive.Archive, error) { return a, nil }})
	})
	return err
}

// back makes an actor what it was. Of a store that no process has open what is there is backed up before, and then the state is looked for.
func (c *restorer) back(ctx context.Context, url string) error {
	p := newProgress(c.env.progress)
	defer p.end()
	in := &admin.UndoIn{Bookmark: c.at, Wake: c.wake, Progress: func(read int64) { p.show(read, read) }}
	if _, err := archive.ParseBookmark(c.at); err != nil {
		at, err := parseTime(c.at, time.Now())
		if err != nil {
			return err
		}
		in.Bookmark, in.At = "", &at
	}
	out, err := restoreActor(ctx, c, url, admin.Undo, in, func(s *storeurl.Store, do func(admin.On) error) error {
		b, err := c.dest.Open(c.to)
		if err != nil {
			return err
		}
		w, err := archive.Start(s.Engine(), b, &archive.Options{Every: 10 * time.Millisecond, Keep: -1, Store: storeurl.Display(url)})
		if errors.Is(err, errors.ErrUnsupported) {
			return serving.Usage("backups are of stores in a directory: PostgreSQL has its own tools, see docs/postgres.md")
		}
		if err != nil {
			return err
		}
		err = do(admin.On{Store: s.Store})
		if err == nil {
			err = w.Sync(ctx)
		}
		if cerr := w.Close(); err == nil {
			err = cerr
		}
		return err
	})
	switch {
	case errors.Is(err, archive.ErrElsewhere):
		return say(err, "the backups of the store have gone on elsewhere: name that destination")
	case errors.Is(err, archive.ErrOtherStore):
		return say(err, "these are the backups of another store")
	case err != nil:
		return err
	}
	p.end()
	if _, err := fmt.Fprintf(c.env.stdout, "restored the state %s; before, it was --at %s\n", out.State, out.Before); err != nil {
		return err
	}
	for _, l := range out.Left {
		if _, err := fmt.Fprintf(c.env.stdout, "not undone: the message %s to %s of %s\n", visibleText(l.Name), visibleText(l.To), stamp(l.Sent)); err != nil {
			return err
		}
	}
	if out.More {
		_, err = fmt.Fprintln(c.env.stdout, "not undone: messages that the backup doesn't tell, or too many to list")
	}
	return err
}

// restoreActor has a verb done to an actor: here, where with runs it, or by the process that has the store open.
func restoreActor[In, Out any](
	ctx context.Context, c *restorer, url string, v *admin.StoreVerb[In, Out], in *In, with func(s *storeurl.Store, do func(admin.On) error) error,
) (out *Out, err error) {
	err = serving.WithStore(ctx, url, greenroom.Options{MustExist: true, Limits: c.env.limits}, func(s *storeurl.Store) error {
		return with(s, func(on admin.On) (err error) {
			out, err = v.Do(ctx, on, c.actor, in)
			return invalid(err)
		})
	})
	if !elsewhere(err) {
		return out, err
	}
	t := target{url: url, actor: c.actor, env: c.env}
	client, err := t.dial(ctx, err)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	out, err = v.Ask(ctx, client, c.actor, in)
	return out, invalid(err)
}
