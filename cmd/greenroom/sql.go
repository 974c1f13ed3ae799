package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/internal/visible"
	"github.com/spf13/cobra"
)

// A sqlCommand is the call of greenroom sql.
type sqlCommand struct {
	env      *env
	modes    [3]bool // of --table, --csv and --json
	header   bool
	setsHead bool
	readOnly bool
}

func newSQL(e *env) *cobra.Command {
	c := &sqlCommand{env: e}
	cmd := &cobra.Command{
		Use:   "sql STORE ACTOR [SQL]",
		Short: "Run SQL, or an interactive shell",
		Long: `Run the statements in SQL, or those on standard input, on the actor's database.
On a terminal, without SQL, an interactive shell starts: .help says what it knows
besides SQL.

A store and an actor that aren't there are made by the first statement that writes,
which is told on standard error; if there is none, or a query comes before it, that is
an error. The shell asks before.

Each statement's rows are written as soon as it is done. The first error ends the
run with status 1 and names the statement and its line; the statements before it
stay done, except those of a transaction that is still open, which is rolled back.

Rows are a table on a terminal, and lines with fields separated by | elsewhere,
as sqlite3 writes them. A blob is X'…' (its bytes as they are in the lines), NULL
is nothing in lines and CSV, where the empty string is "". With --json each
statement that has columns gives one array with an object per row.`,
		Example: `  greenroom sql data music "select count(*) from Track"
  greenroom sql data music < schema.sql
  greenroom sql --csv data music "select * from Artist" > artists.csv`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(slices.DeleteFunc(slices.Clone(c.modes[:]), func(set bool) bool { return !set })) > 1 {
				return serving.Usage("--table, --csv and --json exclude each other")
			}
			if e.withoutLogRest && !c.readOnly {
				return serving.Usage("--without-log-rest is for reading: add --read-only")
			}
			c.setsHead = cmd.Flags().Changed("header")
			return c.run(cmd.Context(), args)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&c.modes[0], "table", false, "write rows as a table")
	f.BoolVar(&c.modes[1], "csv", false, "write rows as CSV")
	f.BoolVar(&c.modes[2], "json", false, "write each result as an array of objects")
	f.BoolVar(&c.header, "header", false, "begin with the names of the columns (default for CSV)")
	f.BoolVar(&c.readOnly, "read-only", false, "look only: create nothing, don't take the actor over")
	logRestFlag(cmd, e)
	return cmd
}

// layout is how the flags, or else the kind of output, want rows.
func (c *sqlCommand) layout() layout {
	l, tty := newLayout(modeList), terminal(c.env.stdout)
	if i := slices.Index(c.modes[:], true); i >= 0 {
		l = newLayout([]mode{modeTable, modeCSV, modeJSON}[i])
	} else if tty != nil {
		l = newLayout(modeTable)
	}
	if l.tty = tty != nil; l.tty {
		l.width = func() int { return terminalWidth(tty) }
	}
	if c.setsHead {
		l.header = c.header
	}
	return l
}

// open runs fn with a session on the database, which may be written unless --read-only. agree is that of
// a target.
func (c *sqlCommand) open(ctx context.Context, url, actor string, agree func(error) error, fn func(executor) error) error {
	here := func(db *sql.DB) error { return withExecutor(ctx, db, fn) }
	t := target{url: url, actor: actor, env: c.env}
	if c.readOnly {
		return viewDatabase(ctx, t, here)
	}
	t.create, t.agree = true, agree
	err := ownDatabase(ctx, t, here)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return say(err, "%v; what may only be read is looked at with --read-only", err)
	}
	if !elsewhere(err) {
		return err
	}
	return t.ask(ctx, err, func(a *admin.Client, _ *storeurl.Store, create bool) error {
		s, err := a.SQL(ctx, actor, create)
		if err != nil {
			return err
		}
		return errors.Join(fn(s), s.Close())
	})
}

func (c *sqlCommand) run(ctx context.Context, args []string) error {
	in, person := c.input(args)
	mayMake := func(missing error) (err error) {
		if person != nil {
			return agree(ctx, person, missing)
		}
		in, err = firstWrite(ctx, in, missing)
		return err
	}
	return c.open(ctx, args[0], args[1], mayMake, func(e executor) error {
		s := &session{executor: e, out: bufio.NewWriter(c.env.stdout), layout: c.layout()}
		sh := &shell{session: s, signals: c.env.signals}
		if person != nil {
			return sh.interact(ctx, person, args[1])
		}
		return sh.run(ctx, in)
	})
}

// input returns what the call's statements are read from; person is the same if a person
// types them.
func (c *sqlCommand) input(args []string) (in lineSource, person *terminalSource) {
	if len(args) == 3 {
		return newReaderSource(strings.NewReader(args[2])), nil
	}
	stdin, stdout := terminal(c.env.stdin), terminal(c.env.stdout)
	if stdin == nil || stdout == nil {
		return newReaderSource(c.env.stdin), nil
	}
	person, warning := interactiveInput(stdin, stdout, c.env.getenv)
	if warning != nil {
		fmt.Fprintf(c.env.stderr, "greenroom: the history is not kept: %s\n", serving.Message(warning))
	}
	return person, person
}

// interact runs a shell for a person.
func (sh *shell) interact(ctx context.Context, src *terminalSource, actor string) error {
	sh.errs = visible.Writer(src.term)
	src.complete = completer{sh.session}.complete
	sh.session.changed = func(rows int64) {
		if sh.depth == 0 {
			noun := "rows"
			if rows == 1 {
				noun = "row"
			}
			fmt.Fprintf(sh.errs, "%d %s changed\n", rows, noun)
		}
	}
	fmt.Fprintf(src.term, "The database of %s. End statements with a semicolon; .help lists commands.\n", visibleText(actor))
	if _, elsewhere := sh.session.executor.(*admin.SQL); elsewhere {
		fmt.Fprintln(src.term, "Another process has the store open, and runs them. A transaction has 30 seconds; temporary tables are gone after a second.")
	}
	return errors.Join(sh.run(ctx, src), src.restore())
}
