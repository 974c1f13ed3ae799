package main

import (
	"regexp"
	"slices"
	"strings"
)

// keywords are those of SQLite, in the order of the alphabet.
//
// https://sqlite.org/lang_keywords.html
var keywords = strings.Fields(`abort action add after all alter always analyze and as asc attach autoincrement before begin between by cascade case
	cast check collate column commit conflict constraint create cross current current_date current_time current_timestamp database
	default deferrable deferred delete desc detach distinct do drop each else end escape except exclude exclusive exists explain
	fail filter first following for foreign from full generated glob group groups having if ignore immediate in index indexed
	initially inner insert instead intersect into is isnull join key last left like limit match materialized natural no not
	nothing notnull null nulls of offset on or order others outer over partition plan pragma preceding primary query raise range
	recursive references regexp reindex release rename replace restrict returning right rollback row rows savepoint select set
	table temp temporary then ties to transaction trigger unbounded union unique update using vacuum values view virtual when
	where window with without`)

// plainName matches names that need no quotes unless they are keywords.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// quoteName returns a name as SQL has it, in quotes where these are needed.
func quoteName(name string) string {
	if _, keyword := slices.BinarySearch(keywords, strings.ToLower(name)); plainName.MatchString(name) && !keyword {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// quoteAll returns names as SQL has them.
func quoteAll(names []string) []string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = quoteName(name)
	}
	return quoted
}

// quoteNames returns a list of names.
func quoteNames(names []string) string { return strings.Join(quoteAll(names), ",") }

// quoteText returns a text without NUL as SQL has it.
func quoteText(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
