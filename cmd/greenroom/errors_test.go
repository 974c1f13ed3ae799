package main

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// TestNewerFormat opens stores of a version to come: the program says what it
// found and what it knows, whichever package found it.
func TestNewerFormat(t *testing.T) {
	for _, test := range []struct {
		name    string
		newer   func(t *testing.T, dir string)
		pattern string // of what has a newer version, in the message
	}{
		{"directory", newerDirectory, `Pebble directory has version 999, known are versions up to \d+`},
		{"store", newerRow("02677265656e726f6f6d00150114"), `store has version 9, known are versions up to 1`},
		{"head", newerRow("02677265656e726f6f6d001501150140014535f229182a5ceb83abf011e8ac4ac00000"),
			`head of actor \w{30} has version 9, known are versions up to 1`},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		must(t, "put", dir, "music", "k", "v")
		test.newer(t, dir)
		want := regexp.MustCompile("^greenroom: the store " + regexp.QuoteMeta(dir) +
			" was written by a newer version of greenroom than this one: " + test.pattern + "\n$")
		for _, args := range [][]string{
			{"ls", dir},
			{"get", dir, "music", "k"},
			{"put", dir, "music", "k", "w"},
			{"sql", dir, "music", "select 1"},
		} {
			r := program(t.Context(), strings.NewReader(""), args...)
			if r.code != serving.ExitFailed || !want.MatchString(r.stderr) {
				t.Errorf("%s, %s: status %d, %q, want %q", test.name, args[0], r.code, r.stderr, want)
			}
		}
	}
}

// newerDirectory gives a store's directory the format of a Pebble to come.
func newerDirectory(t *testing.T, dir string) {
	t.Helper()
	markers, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
	if err != nil || len(markers) != 1 {
		t.Fatal(markers, err)
	}
	if err := os.Rename(markers[0], strings.TrimSuffix(markers[0], filepath.Ext(markers[0]))+".999"); err != nil {
		t.Fatal(err)
	}
}

// newerRow returns a function that gives the row under a key, in hexadecimal, the
// version 9, which is in the row's first two bytes.
func newerRow(key string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		k, err := hex.DecodeString(key)
		if err != nil {
			t.Fatal(err)
		}
		db, err := pebblekv.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		row, err := db.Get(t.Context(), k, nil)
		if err != nil {
			t.Fatal(err)
		}
		row[0], row[1] = 9, 0
		err = db.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.Set(k, row)}})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPutLimits: the message is about the user's key, and not as long as that.
func TestPutLimits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	must(t, "put", dir, "music", "first", "v")
	long := strings.Repeat("k", 2100)
	quoted := `key "` + long[:64] + `"… (2100 bytes): `
	for _, test := range []struct{ key, value, want string }{
		{long, "v", "key too long: " + quoted},
		{"hex:" + hex.EncodeToString([]byte(long)), "v", "key too long: " + quoted},
		{"big", strings.Repeat("v", 200_000), `value too large: key "big": 200000 bytes of the value, limit 131072` + "\n"},
	} {
		r := program(t.Context(), strings.NewReader(test.value), "put", dir, "music", test.key)
		if r.code != serving.ExitFailed || !strings.HasPrefix(r.stderr, "greenroom: "+test.want) || len(r.stderr) > 200 {
			t.Errorf("%.10s: status %d, %q, want %q", test.key, r.code, r.stderr, test.want)
		}
	}
}

// TestPlainMessages: a message has neither names of packages in it, nor the same twice.
func TestPlainMessages(t *testing.T) {
	for err, want := range map[error]string{
		errors.New("pgkv: open db1: pgkv: no server is available"):                                              "open db1: no server is available",
		errors.New("greenroom: actorstore: bad\nkv: failed"):                                                    "bad; failed",
		errors.New("actor kv: there is none"):                                                                   "actor kv: there is none",
		trimmed(errors.New("sqlite3: unable to open database file: unable to open database: x: vfs: not here")): "unable to open database: x: not here",
	} {
		if got := serving.Message(err); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	t.Chdir(t.TempDir())
	for _, command := range []string{".read nowhere", ".import nowhere t"} {
		r := program(t.Context(), strings.NewReader(""), "sql", "mem:", "music", command)
		if want := "greenroom: line 1: there is no file nowhere\n"; r.stderr != want {
			t.Errorf("%s: %q, not %q", command, r.stderr, want)
		}
	}
}
