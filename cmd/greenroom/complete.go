package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/internal/sqlrun"
)

// A completer says what the words of a shell's line may become.
type completer struct{ *session }

// complete returns where the word that ends at pos begins in line, and what it may become: in SQL the keywords, tables and columns that
// begin with it, and behind a dot the columns of what stands before it. Behind a blank it lists tables, where a table is meant.
func (c completer) complete(ctx context.Context, line string, pos int) (from int, words []string, err error) {
	line = line[:pos]
	if strings.HasPrefix(line, ".") {
		return c.command(ctx, line)
	}
	from = wordStart(line)
	word := line[from:]
	before := strings.TrimRight(line[:from], " \t")
	table := ""
	switch {
	case strings.HasSuffix(line[:from], `"`):
		from--
	case strings.HasSuffix(line[:from], "."):
		quoted := strings.HasSuffix(line[:from-1], `"`)
		table = strings.TrimSuffix(line[:from-1], `"`)
		if quoted {
			table = table[strings.LastIndexByte(table, '"')+1:]
		} else {
			table = table[wordStart(table):]
		}
		words, err = c.columns(ctx, table)
		return from, quoteAll(beginning(word, words)), err
	}
	words, err = c.tables(ctx)
	if err != nil || slices.Contains(tableWords, strings.ToLower(before[wordStart(before):])) {
		return from, quoteAll(beginning(word, words)), err
	}
	if word == "" && from == pos {
		return pos, nil, nil
	}
	columns, err := c.columns(ctx, "")
	words = quoteAll(beginning(word, append(words, columns...)))
	if from == pos-len(word) { // not in quotes
		for _, k := range beginning(word, keywords) {
			if strings.ToLower(word) != word {
				k = strings.ToUpper(k)
			}
			words = append(words, k)
		}
	}
	return from, words, err
}

// tableWords are keywords that a table follows.
var tableWords = []string{"from", "join", "into", "update", "table"}

// wordStart returns where the word at the end of line begins.
func wordStart(line string) int {
	i := len(line)
	for i > 0 && isWord(line[i-1]) {
		i--
	}
	return i
}

// beginning returns the names that begin with a word.
func beginning(word string, names []string) (found []string) {
	for _, name := range names {
		if len(name) >= len(word) && strings.EqualFold(name[:len(word)], word) {
			found = append(found, name)
		}
	}
	return found
}

// tables returns the names of tables and views.
func (c completer) tables(ctx context.Context) ([]string, error) {
	return c.names(ctx, "SELECT name FROM pragma_table_list WHERE schema IN ('main', 'temp') AND type <> 'shadow' AND name NOT LIKE 'sqlite\\_temp%' ESCAPE '\\'")
}

// columns returns the names of a table's columns; those of all tables if there isn't such a table, as behind an alias.
func (c completer) columns(ctx context.Context, table string) ([]string, error) {
	if table != "" {
		names, err := c.names(ctx, "SELECT name FROM pragma_table_xinfo("+textLiteral(table)+") WHERE hidden <> 1")
		if err != nil || len(names) > 0 {
			return names, err
		}
	}
	return c.names(ctx, `SELECT DISTINCT c.name FROM pragma_table_list AS t, pragma_table_xinfo(t.name) AS c
		WHERE t.schema = 'main' AND t.type IN ('table', 'view') AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\' AND c.hidden <> 1`)
}

// names returns what a query selects.
func (c completer) names(ctx context.Context, query string) (names []string, err error) {
	err = c.query(ctx, query, func(row []sqlrun.Cell) { names = append(names, string(row[0].Text)) })
	return names, err
}

// command is complete for a command of the shell's own.
func (c completer) command(ctx context.Context, line string) (from int, words []string, err error) {
	name, _, isWhole := strings.Cut(line[1:], " ")
	for _, d := range dotCommands() {
		switch {
		case !isWhole && strings.HasPrefix(d.name, name):
			words = append(words, "."+d.name)
		case isWhole && d.name == name:
			from = strings.LastIndexByte(line, ' ') + 1
			if args, n := strings.Fields(d.args), len(strings.Fields(line[:from]))-1; n < len(args) {
				words, err = c.argument(ctx, strings.Trim(args[n], "[]"), line[from:])
			}
			return from, words, err
		}
	}
	return 0, words, nil
}

// argument completes one argument of a command, which is of a kind.
func (c completer) argument(ctx context.Context, kind, word string) (words []string, err error) {
	switch kind {
	case "TABLE":
		words, err = c.tables(ctx)
	case "MODE":
		for _, m := range modes {
			words = append(words, string(m))
		}
	case "FILE":
		dir, _ := filepath.Split(word)
		entries, _ := os.ReadDir(filepath.Clean(dir)) // of a folder that can't be read nothing is proposed
		for _, e := range entries {
			name := dir + e.Name()
			if e.IsDir() {
				name += "/"
			}
			words = append(words, name)
		}
	default:
		words = strings.Split(kind, "|")
	}
	return beginning(word, words), err
}
