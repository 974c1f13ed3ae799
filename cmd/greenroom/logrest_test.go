package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/serving"
)

// TestWithoutLogRest reads a store of which a record of the log is damaged with each command that has the flag: the command reads
// one state from before the damage, says once what is left out, and changes nothing. Without the flag the error says how to read it.
func TestWithoutLogRest(t *testing.T) {
	w := newWreck(t, false)
	commands := [][]string{
		{"ls", w.dir},
		{"ls", w.dir, "keys", "user/k"},
		{"get", w.dir, "keys", "n"},
		{"sql", "--read-only", w.dir, "sql", "select count(*) from t"},
		{"export", "--force", w.dir, "sql", filepath.Join(t.TempDir(), "out.db")},
		{"check", w.dir},
		{"check", "--json", w.dir, "keys"},
	}
	with := func(args []string) result {
		return program(t.Context(), strings.NewReader(""), append(args[:1:1], append([]string{"--without-log-rest"}, args[1:]...)...)...)
	}
	for _, args := range commands {
		if r := with(args); r.code != serving.ExitOK || r.stderr != "" {
			t.Errorf("greenroom %q of a whole store with the flag: %s", args, report(r))
		}
	}

	name := filepath.Join(w.dir, w.log())
	whole := read(t, name)
	if err := flip(len(strings.TrimRight(string(whole), "\x00"))/2)(name, whole); err != nil {
		t.Fatal(err)
	}
	before := sums(t, w.dir+string(filepath.Separator))
	out := map[string]string{}
	for _, args := range commands {
		r := program(t.Context(), strings.NewReader(""), args...)
		if r.code != serving.ExitFailed || r.stdout != "" || !strings.Contains(r.stderr, "--without-log-rest") || !strings.Contains(r.stderr, "greenroom salvage") {
			t.Errorf("greenroom %q of a damaged store: %s", args, report(r))
		}
		r = with(args)
		want := serving.ExitOK
		if args[0] == "check" {
			want = serving.ExitFailed
			if !strings.Contains(r.stdout, "its end is left out: ") || !strings.Contains(r.stdout, filepath.Base(name)) {
				t.Errorf("greenroom %q of a damaged store with the flag doesn't say that the log is: %s", args, report(r))
			}
		}
		notice := "greenroom: the end of the log of " + w.dir + " is left out: "
		if r.code != want || r.stdout == "" && args[0] != "export" || !strings.HasPrefix(r.stderr, notice) ||
			!strings.Contains(r.stderr, filepath.Base(name)) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("greenroom %q of a damaged store with the flag: %s", args, report(r))
		}
		out[args[0]+fmt.Sprint(len(args))] = r.stdout
	}
	if keys := strings.Count(out["ls4"], "\n"); keys == 0 || keys == 8 || out["get4"] != fmt.Sprint(keys-1) {
		t.Errorf("the damaged store has %d of 8 keys, and the last Update was number %s", keys, out["get4"])
	}
	if after := sums(t, w.dir+string(filepath.Separator)); after != before {
		t.Error("reading a damaged store changes it")
	}
	r := with([]string{"sql", w.dir, "sql", "select 1"})
	if r.code != serving.ExitUsage || !strings.Contains(r.stderr, "--without-log-rest is for reading: add --read-only") {
		t.Errorf("sql with the flag, and without --read-only: %s", report(r))
	}

	if err := os.RemoveAll(filepath.Dir(name)); err != nil {
		t.Fatal(err)
	}
	if r := with(commands[2]); r.code != serving.ExitFailed || !strings.Contains(r.stderr, "there is no actor keys in "+w.dir) {
		t.Errorf("get from a store that has lost all with its log: %s", report(r))
	}
}
