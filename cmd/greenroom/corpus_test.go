package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// corpusDir is where the fuzzdata*.db of SQLite's sources are: test/ of Debian's source
// package sqlite3, for instance.
const corpusDir = "GREENROOM_SQLITE_CORPUS"

// TestSQLCorpus runs the texts with which SQLite's own fuzzing began, each on a new
// database, and looks that an answer is SQLite's or an error in words. A text has a second.
func TestSQLCorpus(t *testing.T) {
	dir := os.Getenv(corpusDir)
	if dir == "" {
		t.Skipf("%s doesn't say where SQLite's fuzzdata*.db are", corpusDir)
	}
	files, err := filepath.Glob(filepath.Join(dir, "fuzzdata*.db"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no fuzzdata*.db in %s: %v", dir, err)
	}
	t.Chdir(t.TempDir())
	var logged strings.Builder // which a terminal would show
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	ran, failed, late := 0, 0, 0
	for _, file := range files {
		for text := range texts(t, file) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			r := program(ctx, strings.NewReader(text), "sql", "mem:", "fuzzed")
			inTime := ctx.Err() == nil
			cancel()
			ran++
			r.stderr += logged.String()
			logged.Reset()
			switch {
			case strings.Contains(r.stderr, "goroutine ") || strings.Contains(r.stderr, "runtime error") || strings.Contains(r.stderr, ".go:"):
				t.Errorf("%s: %.300q: %.600s", filepath.Base(file), text, r.stderr)
			case !inTime:
				late++
			case r.code != 0:
				failed++
			}
		}
	}
	t.Logf("%d texts: %d failed, %d took more than a second", ran, failed, late)
}

// texts returns the texts in a file of SQLite's corpus.
func texts(t *testing.T, file string) func(func(string) bool) {
	return func(yield func(string) bool) {
		c, err := sqlite3.OpenFlags("file:"+file+"?vfs=os", sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s, _, err := c.Prepare("SELECT DISTINCT CAST(sqltext AS TEXT) FROM xsql ORDER BY 1")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for s.Step() {
			if !yield(s.ColumnText(0)) {
				return
			}
		}
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
	}
}
