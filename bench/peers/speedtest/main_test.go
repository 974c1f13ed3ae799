package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServe runs speedtest1 in each place, twice: databases are new ones.
func TestServe(t *testing.T) {
	for _, kind := range []string{"greenroom-pebble", "greenroom-mem", "file-delete-full", "memdb"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			var out strings.Builder
			if err := serve(t.Context(), []string{kind, "1", dir}, strings.NewReader("1\n0\n1\n"), &out); err != nil {
				t.Fatal(err)
			}
			var commits []int64
			for _, n := range []string{"1 ", "0 ", "1 "} {
				line, rest, _ := strings.Cut(out.String(), "\n")
				out.Reset()
				out.WriteString(rest)
				text, ok := strings.CutPrefix(line, n)
				var c asked
				if err := json.Unmarshal([]byte(text), &c); err != nil || !ok {
					t.Fatalf("answer %q to %s: %v", line, n, err)
				}
				if pebble := kind == "greenroom-pebble"; pebble != (c.Fsyncs != nil) || pebble && c.Durable > 0 && *c.Fsyncs == 0 {
					t.Errorf("%d durable commits took fsyncs: %v", c.Durable, c.Fsyncs)
				}
				commits = append(commits, c.Commits)
			}
			if actor := strings.HasPrefix(kind, "greenroom"); actor != (commits[0] > 0) || commits[1] != 0 || commits[2] != commits[0] {
				t.Errorf("commits of 1, 0 and 1 runs: %d", commits)
			}
			_, err := os.Stat(filepath.Join(dir, "speedtest-2.db"))
			if file := strings.HasPrefix(kind, "file"); file != (err == nil) {
				t.Errorf("the second file: %v", err)
			}
		})
	}
}

func TestServeRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {"tape", "1", "."}, {"memdb", "1", ".", "a", "b"}} {
		if err := serve(t.Context(), args, strings.NewReader("1\n"), t.Output()); err == nil {
			t.Errorf("no error for %q", args)
		}
	}
	if err := serve(t.Context(), []string{"memdb", "1", "."}, strings.NewReader("one\n"), t.Output()); err == nil {
		t.Error("no error for what is no number")
	}
	if err := serve(t.Context(), []string{"file-delete-full", "1", filepath.Join(t.TempDir(), "missing")}, strings.NewReader("1\n"), t.Output()); err == nil {
		t.Error("no error when speedtest1 doesn't do its work")
	}
}
