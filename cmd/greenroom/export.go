package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/spf13/cobra"
)

func newExport(e *env) *cobra.Command {
	var force bool
	many := bulk{env: e, reads: true}
	cmd := &cobra.Command{
		Use:   "export STORE {ACTOR FILE.db | DIR}",
		Short: "Write the actor's database to an SQLite file",
		Long: `Copy the actor's database, in the state it has now, to the SQLite file FILE.db,
which appears when it is whole and on stable storage. A file that is there is
replaced with --force only.

With flags that choose actors, the databases of all of these are copied into the folder DIR, each
to NAME.db, where a "/" of the name is %2F. Without --force a file that is there is left, so that an
export that was interrupted goes on when it is run again; an actor without a database gets no file.
--dry-run lists the actors, and writes nothing. The status is 1 if one of them can't be exported.`,
		Example: `  greenroom export data music music.db
  greenroom export data backup/ --named room/`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := many.parse(len(args) == 3); err != nil {
				return err
			}
			if len(args) == 2 {
				return exportAll(cmd.Context(), &many, exportArgs{url: args[0], file: args[1], force: force})
			}
			return exportFile(cmd.Context(), e, exportArgs{args[0], args[1], args[2], force})
		},
	}
	many.flags(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "replace FILE.db")
	logRestFlag(cmd, e)
	return cmd
}

type exportArgs struct {
	url, actor, file string
	force            bool
}

func exportFile(ctx context.Context, e *env, args exportArgs) error {
	if err := mayWrite(args.file, args.force); err != nil {
		return err
	}
	return viewDatabase(ctx, target{url: args.url, actor: args.actor, env: e}, args.copier(ctx, e))
}

// exportAll exports the databases of all actors of a selection into the folder args.file.
func exportAll(ctx context.Context, many *bulk, args exportArgs) error {
	if info, err := os.Stat(args.file); err != nil || !info.IsDir() {
		return cmp.Or(err, say(nil, "%s is not a folder", args.file))
	}
	return many.run(ctx, args.url, func(o opened, actor string) error {
		one := args
		one.actor, one.file = actor, filepath.Join(args.file, url.PathEscape(actor)+".db")
		if err := mayWrite(one.file, one.force); err != nil {
			if errors.Is(err, fs.ErrExist) {
				return nil
			}
			return err
		}
		t := target{url: args.url, actor: actor, env: many.env}
		return viewIn(ctx, o.Store, t, func(v *greenroom.View) error {
			if found, err := vfs.Exists(ctx, v.Lower()); err != nil || !found {
				return err
			}
			return databaseOf(t, v, one.copier(ctx, many.env))
		})
	})
}

// copier returns what copies a database to the file of args.
func (args exportArgs) copier(ctx context.Context, e *env) func(*sql.DB) error {
	return func(db *sql.DB) error {
		tmp, err := createBeside(args.file)
		if err != nil {
			return err
		}
		err = onConn(ctx, db, func(c sqlrun.Conn) error { return copyTo(ctx, e, c, tmp) })
		if err == nil {
			err = publish(tmp, args)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(tmp))
		}
		return err
	}
}

// mayWrite refuses an existing file, unless force, and anything that isn't a file.
func mayWrite(file string, force bool) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is there, and not a regular file", file)
	case !force:
		return say(fs.ErrExist, "%s is there already: --force replaces it", file)
	}
	return nil
}

// createBeside creates an empty file with a name of its own in the folder of file.
func createBeside(file string) (string, error) {
	tmp := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+"."+rand.Text()[:10]+".tmp")
	// Unlike os.CreateTemp, with the permissions that new files get here.
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o666)
	if errors.Is(err, fs.ErrNotExist) {
		return "", say(err, "there is no folder %s", filepath.Dir(file))
	}
	if err != nil {
		return "", err
	}
	return tmp, f.Close()
}

// copyTo copies the database to the file tmp, onto stable storage.
func copyTo(ctx context.Context, e *env, c sqlrun.Conn, tmp string) error {
	// If it fails it is thrown away: no journal, and one fsync at the end.
	err := copyDatabase(ctx, c.Raw(), fileURI(tmp, "journal_mode(off)", "synchronous(off)"), e.progress)
	if err != nil {
		return trimmed(sqlrun.WithCause(err, c.Cause))
	}
	return syncFile(tmp)
}

// publish gives the finished file its name.
func publish(tmp string, args exportArgs) error {
	if err := mayWrite(args.file, args.force); err != nil {
		return err
	}
	if err := os.Rename(tmp, args.file); err != nil {
		return err
	}
	return syncDir(filepath.Dir(args.file))
}

// syncFile brings a file onto stable storage. Windows does that only through a handle
// that may write to it.
func syncFile(path string) error { return syncOpen(path, os.O_RDWR) }

// syncDir brings the names in a folder onto stable storage, where a system has that.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // a folder can't be opened for writing
	}
	return syncOpen(path, os.O_RDONLY)
}

func syncOpen(path string, flag int) error {
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
