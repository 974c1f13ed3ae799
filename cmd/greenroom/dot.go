package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxDepth bounds how deep files may .read files: one that reads itself ends.
const maxDepth = 16

// A dotCommand is a command of the shell's own.
type dotCommand struct {
	name, args, help string
	run              func(sh *shell, ctx context.Context, arg string) error
}

// dotCommands returns them in the order of .help.
func dotCommands() []dotCommand {
	return []dotCommand{
		{"help", "", "this list", (*shell).help},
		{"tables", "", "the names of tables and views", (*shell).tables},
		{"schema", "[TABLE]", "the SQL that made everything, or one table and what belongs to it", (*shell).schema},
		{"indexes", "[TABLE]", "the names of indexes, of everything or of one table", (*shell).indexes},
		{"dump", "[TABLE]", "the SQL that makes everything, or one table, with its rows: sqlite3 reads it, too", dump},
		{"import", "FILE TABLE", "insert the rows of a CSV file; a table that isn't there is made, of its first line", importCSV},
		{"mode", "MODE", "how rows are written: table, line, list, csv or json", (*shell).mode},
		{"headers", "on|off", "whether list and csv begin with the names of the columns", (*shell).headers},
		{"read", "FILE", "run the SQL in a file", (*shell).read},
		{"timer", "on|off", "whether each statement is followed by the time that it took", (*shell).time},
		{"quit", "", "end, as Ctrl-D does", (*shell).quit},
		{"exit", "", "end, as .quit does", (*shell).quit},
	}
}

// dot runs a line that begins with a dot. A command may be shortened.
func (sh *shell) dot(ctx context.Context, line string) error {
	name, arg, _ := strings.Cut(strings.TrimSpace(line[1:]), " ")
	arg = strings.TrimSpace(arg)
	if args := dotWords(arg); len(args) == 1 {
		arg = args[0]
	}
	var found []dotCommand
	for _, c := range dotCommands() {
		if c.name == name {
			found = []dotCommand{c}
			break
		}
		if name != "" && strings.HasPrefix(c.name, name) {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("no command .%s: .help lists them", name)
	}
	c := found[0]
	switch {
	case c.args == "" && arg != "":
		return fmt.Errorf(".%s takes no argument", c.name)
	case c.args != "" && c.args[0] != '[' && arg == "":
		return fmt.Errorf(".%s wants an argument: .%s %s", c.name, c.name, c.args)
	}
	return c.run(sh, ctx, arg)
}

// dotWord matches one argument of a command, in quotes if it has spaces.
var dotWord = regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`)

// dotWords returns the arguments of a command.
func dotWords(arg string) []string {
	words := dotWord.FindAllString(arg, -1)
	for i, w := range words {
		words[i] = strings.Trim(w, `"'`)
	}
	return words
}

func (sh *shell) help(context.Context, string) error {
	out := sh.session.out
	for _, c := range dotCommands() {
		fmt.Fprintf(out, "%-18s %s\n", "."+c.name+" "+c.args, c.help)
	}
	fmt.Fprintln(out, "Anything else is SQL, over as many lines as it takes, up to a semicolon.")
	return out.Flush()
}

func (sh *shell) tables(ctx context.Context, _ string) error {
	_, err := sh.session.lines(ctx, `SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')
		AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name`)
	return err
}

func (sh *shell) schema(ctx context.Context, pattern string) error {
	like := strings.ReplaceAll(cmp.Or(pattern, "%"), "'", "''")
	n, err := sh.session.lines(ctx, `SELECT sql || ';' FROM sqlite_schema
		WHERE sql IS NOT NULL AND tbl_name LIKE '`+like+`' ORDER BY rowid`)
	if err == nil && n == 0 && pattern != "" {
		return fmt.Errorf("no such table: %s", pattern)
	}
	return err
}

func (sh *shell) indexes(ctx context.Context, pattern string) error {
	like := strings.ReplaceAll(cmp.Or(pattern, "%"), "'", "''")
	_, err := sh.session.lines(ctx, `SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name LIKE '`+like+`' ORDER BY name`)
	return err
}

func (sh *shell) mode(_ context.Context, name string) error {
	m := mode(name)
	if !slices.Contains(modes, m) {
		return fmt.Errorf("no mode %q: there are table, line, list, csv and json", name)
	}
	before := sh.session.layout
	sh.session.layout = newLayout(m)
	sh.session.layout.tty, sh.session.layout.width = before.tty, before.width
	return nil
}

func (sh *shell) headers(_ context.Context, arg string) error {
	if arg != "on" && arg != "off" {
		return errors.New("headers are on or off")
	}
	sh.session.layout.header = arg == "on"
	return nil
}

func (sh *shell) time(_ context.Context, arg string) error {
	if arg != "on" && arg != "off" {
		return errors.New("the timer is on or off")
	}
	sh.timer = arg == "on"
	return nil
}

func (*shell) quit(context.Context, string) error { return errQuit }

func (sh *shell) read(ctx context.Context, file string) error {
	if sh.depth == maxDepth {
		return fmt.Errorf("%s: files that read files, %d deep", file, maxDepth)
	}
	f, err := openInput(file)
	if err != nil {
		return err
	}
	sh.depth++
	err = sh.feed(ctx, newReaderSource(f), file)
	sh.depth--
	return errors.Join(err, f.Close())
}
