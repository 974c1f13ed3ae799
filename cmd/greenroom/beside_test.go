package main

import (
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestEveryCommandBeside: each command is in a session of testdata, which runs with the store closed and with it open in a host.
func TestEveryCommandBeside(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]bool{}
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || info.IsDir() || filepath.Ext(path) == ".gz" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before := ""
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); before == "greenroom" {
				w := append(words(line), "", "")
				ran[w[0]], ran[w[0]+" "+w[1]] = true, true
			}
			before = line
		}
	}
	seen := 0
	for cmd := range leaves() {
		if name := commandName(cmd); !slices.Contains(exclusive, name) {
			if seen++; !ran[name] {
				t.Errorf("no session of testdata has %q", name)
			}
		}
	}
	if seen < 30 {
		t.Errorf("there are %d commands", seen)
	}
}

// leaves yields all commands that do something.
func leaves() iter.Seq[*cobra.Command] {
	return func(yield func(*cobra.Command) bool) {
		var walk func(cmd *cobra.Command) bool
		walk = func(cmd *cobra.Command) bool {
			subs := cmd.Commands()
			for _, sub := range subs {
				if !walk(sub) {
					return false
				}
			}
			return len(subs) > 0 && !strings.Contains(cmd.Use, " ") || cmd.Name() == "help" || !cmd.Runnable() || yield(cmd)
		}
		walk(newRoot(&env{}))
	}
}

func commandName(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), "greenroom ")
}

// reading are the commands that write nothing, of those that docs/operations.md lists.
var reading = []string{
	"serve", "backup ls", "backup verify", "check", "conns ls", "docs check", "docs explain", "docs export", "docs find", "docs get", "docs ls", "docs search", "export", "get", "hosts",
	"items check", "items get", "items ls", "items schema", "items sync", "limits", "ls", "queue ls", "queue peek", "queue stats",
	"state show", "top", "traces ls", "traces show", "workflow ls", "workflow save", "workflow show",
}

// TestCommandTable: docs/operations.md has a table of all commands. With -rewrite it is written.
func TestCommandTable(t *testing.T) {
	var b strings.Builder
	for cmd := range leaves() {
		use, does := strings.TrimSuffix(cmd.UseLine(), " [flags]"), "writes"
		switch name := commandName(cmd); {
		case slices.Contains(reading, name):
			does = "reads"
		case slices.Contains(exclusive, name):
			does = "needs the store for itself"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.ReplaceAll(use, "|", "\\|"), cmd.Short, does)
	}
	page := filepath.Join("..", "..", "docs", "operations.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const head = "| command | does | |\n| --- | --- | --- |\n"
	before, after, found := strings.Cut(string(text), head)
	_, rest, more := strings.Cut(after, "\n\n")
	if more {
		rest = "\n" + rest
	}
	want := before + head + b.String() + rest
	switch {
	case !found:
		t.Error("the page has no such table")
	case flag.Lookup("rewrite").Value.String() == "true":
		err = os.WriteFile(page, []byte(want), 0o644)
	case want != string(text):
		t.Error("the table isn't what the program says: run the test with -rewrite")
	}
	if err != nil {
		t.Error(err)
	}
}
