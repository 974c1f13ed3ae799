package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/serving"
)

func newMigrate(many bulk) *cobra.Command {
	var dir, kind string
	cmd := &cobra.Command{
		Use:   "migrate STORE [ACTOR] --dir DIR",
		Short: "Bring the databases of actors to the latest version of their schema",
		Long: `Run the migrations of a folder that the databases of actors lack: each actor in one transaction,
so that it is as before or as afterwards, for every reader and after a crash. Actors that have the
latest version are left out. The version of an actor is its PRAGMA user_version.

The files of DIR are named as goose and golang-migrate name them: 0001_notes.sql, or
1_notes.up.sql; what is for the way back is left out. A host runs the same migrations, if they
are its Type.Migrations, when an actor wakes.

The actors are those of --type, or those that the other flags choose. --canary brings up some of
them first, one after the other, and goes on only if none failed; --parallel brings up several
at a time; after --max-failures it begins no other one. An actor that fails is listed with its
error, and stays as it is.

` + bulkHelp,
		Example: `  greenroom migrate data --type notes --dir migrations --dry-run
  greenroom migrate postgres://shop@db.lan/shop --type notes --dir migrations --canary 5 --parallel 8`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case dir == "":
				return serving.Usage("--dir says where the migrations are")
			case kind != "" && many.Prefix != "":
				return serving.Usage("either --type or --named")
			case strings.Contains(kind, "/"):
				return serving.Usage(fmt.Sprintf("--type %s: a type has no slash in its name", kind))
			case many.how.Parallel < 1 || many.how.Canary < 0 || many.how.MaxFailures < 0:
				return serving.Usage("--parallel is at least 1, and --canary and --max-failures are not negative")
			case kind != "":
				many.Prefix = kind + "/"
			}
			all, err := greenroom.ReadMigrations(os.DirFS(dir))
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return say(err, "there is no folder %s", dir)
			case err != nil:
				return say(err, "%s: %s", dir, strings.TrimPrefix(err.Error(), greenroom.ErrMigrations.Error()+": "))
			case len(all) == 0:
				return say(nil, "there are no migrations in %s", dir)
			}
			in := &admin.MigrateIn{}
			for _, m := range all {
				in.Migrations = append(in.Migrations, admin.Migration{Version: m.Version, Name: m.Name, SQL: m.SQL})
			}
			many.skip = func(a *greenroom.ActorInfo) bool { return a.Attributes.Schema == all.Latest() }
			return doAll(cmd.Context(), &many, args, admin.Migrate, in)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", "", "the `folder` of the migrations")
	flags.StringVar(&kind, "type", "", "the actors of a `TYPE`: those whose names begin with it and a slash")
	flags.IntVar(&many.how.Parallel, "parallel", 1, "bring up `N` actors at a time")
	flags.IntVar(&many.how.Canary, "canary", 0, "bring up `N` actors first, and go on if none failed")
	flags.IntVar(&many.how.MaxFailures, "max-failures", 10, "after `N` failures begin no other actor; 0 means all are tried")
	many.flags(cmd)
	return cmd
}
