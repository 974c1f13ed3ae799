package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"-run", "point|scan", "-quick", "-json", "-engine", "mem", "-dir", "d"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if !o.run.MatchString("sqlite/scan raw") || o.run.MatchString("sqlite/bulk raw") {
		t.Errorf("-run gave %v", o.run)
	}
	if !o.quick || !o.json || o.engine != engineMem || o.dir != "d" || o.plan != quickPlan || o.sizes != quickSizes {
		t.Errorf("options %+v", o)
	}
	if o, err = parse([]string{"-engine", "postgres://h/d"}, t.Output()); err != nil || o.engine != enginePostgres || o.url != "postgres://h/d" {
		t.Errorf("options for a server %+v, %v", o, err)
	}
	if o, err = parse(nil, t.Output()); err != nil || o.plan != fullPlan || o.engine != enginePebble {
		t.Errorf("options without flags %+v, %v", o, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"-run", "("}, {"-engine", "sqlite"}, {"sqlite/scan"}, {"-fast"},
		{"-engine", "postgres//u:secret@h/d"}, {"postgres://u:secret@h/d"},
		{"-actors", "-1"}, {"-distance", "near"}, {"-distance", "-1ms"},
	} {
		var said bytes.Buffer
		if _, err := parse(args, &said); err == nil || said.Len() == 0 || strings.Contains(said.String(), "secret") {
			t.Errorf("parse(%q): error %v, said %q", args, err, said.String())
		}
	}
}

// tiny are options of a run of milliseconds, given args.
func tiny(t *testing.T, args ...string) options {
	t.Helper()
	o, err := parse(append(args, "-engine", engineMem, "-dir", t.TempDir()), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	o.plan, o.sizes = onePass(2), tinySizes()
	return o
}

// TestProgramJSON runs the program for programs: its output is objects alone.
func TestProgramJSON(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "cpu")
	o := tiny(t, "-run", "point file|insert-1 raw", "-json",
		"-cpuprofile", profile)
	var out, info bytes.Buffer
	if err := o.measureAll(t.Context(), &out, &info); err != nil {
		t.Fatal(err)
	}
	var got []string
	for d := json.NewDecoder(&out); d.More(); {
		var r record
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(r.Environment, "fsync ") || strings.Contains(r.Environment, "quick") {
			t.Errorf("environment %q", r.Environment)
		}
		if r.Ratio <= 0 || r.Rounds != 2 || r.Subject != "greenroom-mem" {
			t.Errorf("record %+v", r)
		}
		got = append(got, r.Name+" "+r.Peer)
	}
	if want := "sqlite/insert-1 raw, sqlite/point file-wal-full"; strings.Join(got, ", ") != want {
		t.Errorf("lines %q, want %q", got, want)
	}
	for _, what := range []string{"cpu ", "SQLite 3.", "fsync "} {
		if !strings.Contains(info.String(), what) {
			t.Errorf("the machine's description lacks %q:\n%s", what, info.String())
		}
	}
	if f, err := os.Stat(profile); err != nil || f.Size() == 0 {
		t.Errorf("profile: %v, %v", f, err)
	}
	if left, err := os.ReadDir(o.dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestProgramTable(t *testing.T) {
	var out, info bytes.Buffer
	if err := tiny(t, "-run", "sqlite/point").measureAll(t.Context(), &out, &info); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"fsync ", "workload", "sqlite/point", "query/s"} {
		if !strings.Contains(out.String(), what) {
			t.Errorf("the output lacks %q:\n%s", what, out.String())
		}
	}
	if info.Len() > 0 {
		t.Errorf("said aside: %s", info.String())
	}
}

func TestProgramFindsNothing(t *testing.T) {
	var out, info bytes.Buffer
	if err := tiny(t, "-run", "nothing").measureAll(t.Context(), &out, &info); err == nil {
		t.Error("a -run that matches nothing was accepted")
	}
}

// TestProgramCantWrite: a file that can't be written is refused before anything is measured.
func TestProgramCantWrite(t *testing.T) {
	for _, name := range []string{"-html", "-cpuprofile"} {
		var out, info bytes.Buffer
		o := tiny(t, "-run", "sqlite/point", name, filepath.Join(t.TempDir(), "missing", "file"))
		if err := o.measureAll(t.Context(), &out, &info); err == nil || out.Len()+info.Len() > 0 {
			t.Errorf("%s: %v, %s%s", name, err, out.String(), info.String())
		}
	}
}
