package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/s3"
	"github.com/greenroomdb/greenroom/archive/bucket/sealed"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
)

// A backup is the command, with its flags.
type backup struct {
	env      *env
	dest     serving.DestinationFlags
	keep     serving.Duration
	takeOver bool
	json     bool
	restore  bool
	erase    string
}

const backupHelp = `A host backs up its store all the time: greenroom host STORE --backup DEST. This command is for a store
that no process has open.`

func (c *backup) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup STORE DEST",
		Short: "Store what has changed in a store since the last backup",
		Long: `Store in DEST what has changed in the store since the last backup there, or all of it, and end.

` + backupHelp + `

Of what is in DEST every state of the last 30 days can be restored, of the whole store or of one actor:
see greenroom restore. What is older is removed (--keep). ` + serving.DestinationHelp + `

DEST is one store's. A store that was restored from DEST may go on there, with a history of its own; for
any other store --take-over must say that DEST is its from now on, and for one that had its backups in DEST
until it went on in another destination.
PostgreSQL has backups of its own: see docs/postgres.md.`,
		Example: `  greenroom backup data /mnt/backup/data
  greenroom backup data s3://backups/data --key age.key`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0], args[1]) },
	}
	c.dest.Flags(cmd)
	c.keep = serving.Duration(archive.DefaultKeep)
	cmd.Flags().Var(&c.keep, "keep", "for how long states are kept")
	cmd.Flags().BoolVar(&c.takeOver, "take-over", false, "go on although another store has its backups there")
	cmd.AddCommand(c.list(), c.verify(), c.collect())
	return cmd
}

// run stores what has changed.
func (c *backup) run(ctx context.Context, url, dest string) error {
	kind, dir, err := storeurl.Parse(url)
	if err != nil {
		return serving.StoreError(url, err)
	}
	if kind != "pebble" {
		return serving.Usage("backup is for a store in a directory: PostgreSQL has its own tools, see docs/postgres.md")
	}
	if c.keep == 0 {
		return serving.Usage("--keep takes a time that is longer than 0")
	}
	if err := serving.Apart(dest, dir); err != nil {
		return err
	}
	b, err := c.dest.Open(dest)
	if err != nil {
		return err
	}
	err = withEngine(ctx, url, storeurl.OpenEngine, greenroom.Options{MustExist: true}, func(e kv.Engine) error {
		w, err := archive.Start(e, b, &archive.Options{Every: 10 * time.Millisecond, Keep: time.Duration(c.keep), TakeOver: c.takeOver, Store: dir})
		if err != nil {
			return err
		}
		p := newProgress(c.env.progress)
		mark, err := patiently(ctx, w, p)
		p.end()
		s := w.Status()
		if cerr := w.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return backupError(dest, err)
		}
		_, err = fmt.Fprintf(c.env.stdout, "stored %d objects, %s: the state %s is in %s\n", s.Objects, serving.SizeText(s.Bytes), mark, dest)
		return err
	})
	if errors.Is(err, kv.ErrStoreInUse) {
		return backupInUse(ctx, url, dest, err)
	}
	return err
}

// backupInUse says how a store is backed up that another process has open, which is why it can't be opened here.
func backupInUse(ctx context.Context, url, dest string, inUse error) error {
	has := fmt.Sprintf("the store %s is in use by %s", storeurl.Display(url), serving.HolderOf(inUse))
	c, err := storeurl.Ask(ctx, url, inUse)
	if err == nil {
		defer c.Close()
		p, perr := c.Process(ctx)
		if perr == nil && p.Backup {
			return say(inUse, "%s, which backs it up all the time, to the DEST of its --backup: there is nothing to do", has)
		}
		err = perr
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	how := fmt.Sprintf("end it, and start it with --backup %s: greenroom host and greenroom engine back up their store while they have it open", dest)
	if err != nil && !errors.Is(err, kv.ErrStoreInUse) {
		return say(inUse, "%s, which doesn't say whether it backs it up (%v). If not, %s", has, serving.RootCause(err), how)
	}
	return say(inUse, "%s. This command is for a store that no process has open: %s", has, how)
}

// patience is how long the bucket may fail.
const patience = 2 * time.Minute

// patiently waits until all is stored, and what is due besides is done, unless the bucket fails for too long, and returns the state.
func patiently(ctx context.Context, w *archive.Writer, p *progress) (mark archive.Bookmark, err error) {
	var failing time.Time
	for {
		until, cancel := context.WithTimeout(ctx, time.Second/4)
		err := w.Settle(until)
		if err == nil {
			mark, err = w.Bookmark(until)
		}
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return mark, err
		}
		s := w.Status()
		p.show(s.Bytes, s.Bytes+s.Base+s.Behind)
		switch {
		case s.Err == nil:
			failing = time.Time{}
		case hopeless(s.Err):
			return mark, s.Err
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) > patience:
			return mark, s.Err
		}
	}
}

// hopeless reports whether an error of a destination stays until its user does something.
func hopeless(err error) bool {
	for _, is := range []error{s3.ErrAccess, s3.ErrNoBucket, s3.ErrUnconditional, sealed.ErrOtherIdentity, errkind.ErrCorrupt, fs.ErrPermission, syscall.ENOTDIR} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// backupError says what is wrong with a destination, if err isn't nil.
func backupError(dest string, err error) error {
	var said *errkind.Sentence
	switch {
	case err == nil:
		return nil
	case errors.As(err, &said): // with what can be done here
	case errors.Is(err, archive.ErrElsewhere):
		return say(err, "%s: %s. Go on there, or say --take-over: then it goes on here, from what the store has now, and what is kept here of before stays. A store has one destination at a time",
			dest, strings.TrimPrefix(err.Error(), "archive: "))
	case errors.Is(err, archive.ErrOtherStore):
		return say(err, "%s: %s. Choose another destination, or say --take-over: then it is this store's from now on, and what is kept there of the other one stays",
			dest, strings.TrimPrefix(err.Error(), "archive: "))
	case errors.Is(err, archive.ErrNotArchive):
		return say(err, "there are no backups in %s", dest)
	case errors.Is(err, archive.ErrEncrypted):
		return say(err, "the backup in %s is encrypted: name the file of its key", dest)
	}
	return fmt.Errorf("%s: %w", dest, err)
}

// openThere returns the bucket of a destination that may have backups.
func openThere(f *serving.DestinationFlags, dest string) (bucket.Bucket, error) {
	b, err := f.Open(dest)
	if err != nil {
		return nil, err
	}
	if err := serving.There(dest); err != nil {
		return nil, say(errkind.ErrNotFound, "%v", err)
	}
	return b, nil
}

// withArchive runs fn with the backups in DEST.
func withArchive(ctx context.Context, f *serving.DestinationFlags, dest string, fn func(*archive.Archive) error) error {
	b, err := openThere(f, dest)
	if err != nil {
		return err
	}
	a, err := archive.Open(ctx, b)
	if err == nil {
		err = fn(a)
	}
	if err != nil {
		return backupError(dest, err)
	}
	return nil
}

// list lists what is kept.
func (c *backup) list() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls DEST",
		Short: "List which states of a store are kept",
		Long: `List the lineages in DEST: unbroken histories of one store. A new one begins where the history has a gap,
with a store that was restored, and with one that takes over. Each state from the first to the last can
be restored, by a time, or by its bookmark.

` + serving.DestinationHelp,
		Example: "  greenroom backup ls s3://backups/data",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withArchive(cmd.Context(), &c.dest, args[0], func(a *archive.Archive) error {
				lines, err := a.Lines(cmd.Context())
				if err != nil {
					return err
				}
				out := output{c.env, c.json, "lineage begun ended first last bases segments bytes"}
				return list(out, all(lines), func(l archive.Line) ([]any, error) {
					return []any{l.Number, l.Begun, l.Ended, l.First.String(), l.Last.String(), l.Bases, l.Segments, l.Bytes}, nil
				})
			})
		},
	}
	c.dest.Flags(cmd)
	cmd.Flags().BoolVar(&c.json, "json", false, "write an array of objects")
	return cmd
}

// verify looks at everything that is kept.
func (c *backup) verify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify DEST",
		Short: "Read everything that is kept, and report what is wrong with it",
		Long: `Read all objects in DEST, compare their checksums, and whether they follow each other, and write a line about
each thing that is wrong. With --restore, the last state is restored, too, into a folder that is removed
again, and checked as greenroom check does it. The status is 1 if something is wrong.

` + serving.DestinationHelp,
		Example: "  greenroom backup verify s3://backups/data --restore",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withArchive(cmd.Context(), &c.dest, args[0], func(a *archive.Archive) error {
				return c.verifyAll(cmd.Context(), a)
			})
		},
	}
	c.dest.Flags(cmd)
	cmd.Flags().BoolVar(&c.restore, "restore", false, "restore the last state, and check it")
	return cmd
}

func (c *backup) verifyAll(ctx context.Context, a *archive.Archive) error {
	p := newProgress(c.env.progress)
	v, err := a.Verify(ctx, func(problem error) {
		p.end()
		fmt.Fprintln(c.env.stdout, oneLine("damaged: "+strings.TrimPrefix(problem.Error(), kv.ErrCorrupt.Error()+": ")))
	}, p.show)
	p.end()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.env.stdout, "%d lineages, %d bases, %d tables, %d segments, %s: %d problems\n", v.Lines, v.Bases, v.Tables, v.Segments, serving.SizeText(v.Bytes), v.Problems)
	if err == nil && c.restore {
		err = (&restorer{env: c.env}).away(ctx, a)
	}
	if err == nil && v.Problems > 0 {
		err = serving.ErrProblems
	}
	return err
}

// collect removes what is too old.
func (c *backup) collect() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gc DEST",
		Short: "Remove states that are older than they are to be kept, or one actor from all",
		Long: `Remove from DEST what only states older than --keep need. A host that writes there does that every hour;
the command is for a backup that none writes to, and may run beside one. The last state stays in any case.

With --erase, remove an actor from all that is kept, whatever its age, as if it had never been: its rows, its
name, and where it stands in indexes. What it has sent to others stays theirs. Drop the actor from the
store before, and end the host that writes to DEST: it goes on there when it is started again. It takes as much room in the
system's folder for temporary files as the store has.

` + serving.DestinationHelp,
		Example: `  greenroom backup gc s3://backups/data --keep 168h
  greenroom backup gc s3://backups/data --erase chat/lobby`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.erase == "" && cmd.Flags().Changed("erase") {
				return serving.Usage("--erase takes the name of an actor")
			}
			b, err := openThere(&c.dest, args[0])
			if err == nil {
				err = backupError(args[0], c.remove(cmd.Context(), b))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&c.erase, "erase", "", "remove the `actor` from all states")
	c.dest.Flags(cmd)
	c.keep = serving.Duration(archive.DefaultKeep)
	cmd.Flags().Var(&c.keep, "keep", "for how long states are kept")
	return cmd
}

// remove removes what is too old, or an actor.
func (c *backup) remove(ctx context.Context, b bucket.Bucket) error {
	if c.erase == "" {
		removed, err := archive.Collect(ctx, b, time.Now().Add(-time.Duration(c.keep)))
		if err == nil {
			_, err = fmt.Fprintf(c.env.stdout, "removed %d objects, %s\n", removed.Objects, serving.SizeText(removed.Bytes))
		}
		return err
	}
	hide := showHint(c.env.progress, "erasing …")
	e, err := archive.Erase(ctx, b, c.erase, "")
	hide()
	if errors.Is(err, kv.ErrNotFound) && !errors.Is(err, archive.ErrNotArchive) {
		return say(err, "nothing of the actor %s is kept", c.erase)
	}
	if err == nil {
		_, err = fmt.Fprintf(c.env.stdout, "erased %s: wrote %d segments and %d bases anew, removed %d objects\n", c.erase, e.Segments, e.Bases, e.Removed)
	}
	return err
}
