package main

import (
	"compress/gzip"
	"context"
	"database/sql"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/serving"
	_ "github.com/ncruces/go-sqlite3/driver"
)

// rivetKitFiles returns a copy of what RivetKit 2.1.5's file-system driver has written: the actors of rivetKitStore
// with ids of the driver's.
func rivetKitFiles(t *testing.T) (dir string) {
	t.Helper()
	const from = "testdata/rivetkit/fs-driver-2.1.5"
	dir = t.TempDir()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		r := io.Reader(f)
		if strings.HasSuffix(path, ".gz") {
			to = strings.TrimSuffix(to, ".gz")
			if r, err = gzip.NewReader(f); err != nil {
				return err
			}
		}
		b, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(to, b, 0o600)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// The ids that the driver has given to the actors.
const rivetRoom, rivetLedger, rivetOrder = "20fe92c7241f12c9", "94bd18598008b245", "f9560743faeee20f"

// importsRivetKit runs the command and returns its output without ids, and what is on standard error.
func importsRivetKit(t *testing.T, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	r := program(t.Context(), strings.NewReader(""), append([]string{"import-rivetkit"}, args...)...)
	if r.code != status {
		t.Fatalf("import-rivetkit %q: status %d, want %d, %s%s", args, r.code, status, r.stderr, r.stdout)
	}
	var lines []string
	for line := range strings.Lines(r.stdout) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) == 6 {
			fields[4] = "ID"
		}
		lines = append(lines, strings.Join(fields, " "))
	}
	return strings.Join(lines, "\n"), r.stderr
}

// TestImportRivetKit imports what RivetKit has written, and reads all of it, as TestRivetKitStore does.
func TestImportRivetKit(t *testing.T) {
	dir, store := rivetKitFiles(t), t.TempDir()+"/data"
	const want = `room/golden/a\/b imported 9 446 ID ` + rivetRoom + "\nledger/books imported 21 69853 ID " + rivetLedger +
		"\norder/o1 imported 42 2019 ID " + rivetOrder
	if got, said := importsRivetKit(t, 0, store, dir); got != want || said != "3 actors imported\n" {
		t.Errorf("got %s\n%s", got, said)
	}
	checkRivetKit(t, store)
	for _, args := range [][]string{{"traces", "ls"}, {"conns", "ls"}} {
		if got := must(t, append(args, store, `room/golden/a\/b`)...); got != "" {
			t.Errorf("%q: %s; the program has none", args, got)
		}
	}
	if got := must(t, "check", store); !strings.Contains(got, "no problems") {
		t.Errorf("check says %q", got)
	}
	keys := must(t, "ls", store, `room/golden/a\/b`)
	for _, key := range []string{"persist\t248", "inspector\t43", "user/\"\\x00\\xff\"\t1", "user/ü/x\t1", "queue/messages/3\t27", "rivetkit/engine\t42"} {
		if !strings.Contains(keys, key) {
			t.Errorf("there is no %s among %s", key, keys)
		}
	}
	got, said := importsRivetKit(t, 0, store, dir)
	if strings.Count(got, "present 0 0") != 3 || said != "0 actors imported, 3 there already\n" {
		t.Errorf("again: %s\n%s", got, said)
	}
	if after := must(t, "ls", store, `room/golden/a\/b`); after != keys {
		t.Errorf("again it was written: %s", after)
	}
	if got := must(t, "import-rivetkit", "--json", store, dir); !strings.Contains(got, `"actor":"order/o1","outcome":"present"`) {
		t.Errorf("in JSON: %s", got)
	}
}

// editDatabase runs SQL on a database of the driver.
func editDatabase(t *testing.T, dir, id, query string) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "databases", id+".db"))
	if err == nil {
		_, err = db.Exec(query)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestImportRivetKitDamage damages the files of one actor: the two others are imported, it is not, and the reason names
// the file.
func TestImportRivetKitDamage(t *testing.T) {
	const state, db, alarm = "state/" + rivetRoom, "databases/" + rivetRoom + ".db", "alarms/" + rivetRoom
	overwrite := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	edit := func(query string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { editDatabase(t, dir, rivetRoom, query) }
	}
	for _, c := range []struct {
		name, want string
		imported   int
		damage     func(*testing.T, string)
	}{
		{"cut state", state + " is not imported: it is damaged: malformed", 2, overwrite(state, "\x03\x00\x10")},
		{"older state", state + " is not imported: it has version 2, known is 3", 2, overwrite(state, "\x02\x00\x10")},
		{"empty state", state + " is not imported: it is damaged", 2, overwrite(state, "")},
		{"no database", state + " is not imported: it has no keys", 2, func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, db)); err != nil {
				t.Fatal(err)
			}
		}},
		{"empty database", state + " is not imported: it has no keys", 2, overwrite(db, "")},
		{"no table", state + " is not imported: it has no keys", 2, edit("drop table kv")},
		{"text", db + " is not an SQLite database: it begins with text", 2, overwrite(db, "text, and more of it")},
		{"damaged database", db + " is damaged, so it is not imported", 2, func(t *testing.T, dir string) {
			path := filepath.Join(dir, db)
			b := read(t, path)
			for i := range b[4096:] {
				b[4096+i] ^= 0xff
			}
			overwrite(db, string(b))(t, dir)
		}},
		{"text in the table", "has a key of the type text with a value of the type blob", 2, edit("insert into kv values ('k', x'00')")},
		{"a long key", "key too long", 2, edit("insert into kv values (cast(zeroblob(3000) as blob), x'00')")},
		{"a very long key", "a key of more than 65536 bytes", 2, edit("insert into kv values (zeroblob(100000), x'00')")},
		{"a large value", "the value of its key 0441 has 200000 bytes", 2, edit("insert into kv values (x'0441', zeroblob(200000))")},
		{"the engine's key", "its key 6865 begins with 68", 2, edit("insert into kv values (x'6865', x'00')")},
		{"another table", "has tables that RivetKit 2.1 doesn't read, which are not imported: notes, users", 3,
			edit("create table users(a); create table notes(a)")},
		{"damaged alarm", alarm + " can't be read, so the actor room/golden/a\\/b is to be woken at once: it is damaged", 3, overwrite(alarm, "x")},
		{"a stray database", "stray.db is not imported: there is no file in state for it", 3, overwrite("databases/stray.db", "x")},
		{"a folder", "state/folder is not imported: it is not a regular file", 3, func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, "state/folder"), 0o700); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, store := rivetKitFiles(t), t.TempDir()+"/data"
			c.damage(t, dir)
			got, said := importsRivetKit(t, 1, store, dir)
			if n := strings.Count(got, " imported "); n != c.imported {
				t.Errorf("%d actors are imported, want %d: %s", n, c.imported, got)
			}
			if want := fmt.Sprintf("%d actors imported, 1 problem\n", c.imported); !strings.Contains(said, c.want) || !strings.HasSuffix(said, want) {
				t.Errorf("got %s; want %s", said, c.want)
			}
			if got := must(t, "check", store); !strings.Contains(got, "no problems") {
				t.Errorf("check says %q", got)
			}
			// The files are mended, and the rest follows.
			if _, said := importsRivetKit(t, 0, store, rivetKitFiles(t)); !strings.HasPrefix(said, fmt.Sprint(3-c.imported)+" actor") {
				t.Errorf("then: %s", said)
			}
		})
	}
}

// TestImportRivetKitOlder imports keys that are in the file of the state, as an older version has stored them.
func TestImportRivetKitOlder(t *testing.T) {
	// a, room, [], {04 6b: "v"}, 7, no times but that it was destroyed, or not.
	const older = "\x03\x00\x01a\x04room\x00\x01\x02\x04k\x01v\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	for _, c := range []struct{ name, state, query, want, value, said string }{
		{"no database", older + "\x00", "", "room// imported 1 3 ID a", "v", "1 actor imported\n"},
		{"empty table", older + "\x00", "create table kv(key blob primary key, value blob)", "room// imported 1 3 ID a", "v", "1 actor imported\n"},
		{"full table", older + "\x00", "create table kv(key blob primary key, value blob); insert into kv values (x'046b', x'7778')",
			"room// imported 1 4 ID a", "wx", "1 actor imported\n"},
		{"destroyed", older + "\x01\x07\x00\x00\x00\x00\x00\x00\x00", "", "room// destroyed 0 0 ID a", "", "0 actors imported, 1 destroyed and left out\n"},
	} {
		dir, store := t.TempDir(), t.TempDir()+"/data"
		for _, folder := range []string{"state", "databases", "alarms"} {
			if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "state/a"), []byte(c.state), 0o600); err != nil {
			t.Fatal(err)
		}
		if c.query != "" {
			editDatabase(t, dir, "a", c.query)
		}
		got, said := importsRivetKit(t, 0, store, dir)
		if got != c.want || said != c.said {
			t.Errorf("%s: got %s\n%s", c.name, got, said)
		}
		if c.value != "" {
			if got := must(t, "get", store, "room//", "k"); got != c.value {
				t.Errorf("%s: the value is %q, want %q", c.name, got, c.value)
			}
		}
	}
}

// TestImportRivetKitRefuses has actors of the same names there: they stay. A directory of another kind makes no store.
func TestImportRivetKitRefuses(t *testing.T) {
	dir, store := rivetKitFiles(t), t.TempDir()+"/data"
	r := program(t.Context(), nil, "import-rivetkit", store, filepath.Join(dir, "state"))
	if r.code != serving.ExitFailed || !strings.Contains(r.stderr, "state is not where a RivetKit program keeps its files: it has no folder state") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(store); err == nil {
		t.Error("there is a store")
	}
	must(t, "put", store, "order/o1", "k", "v")
	_, said := importsRivetKit(t, 1, store, dir)
	want := "state/" + rivetOrder + " is not imported: there is an actor order/o1 in " + store + " already, with Greenroom's layout of keys; it is left as it is\n"
	if !strings.Contains(said, want) || !strings.HasSuffix(said, "2 actors imported, 1 problem\n") {
		t.Errorf("got %s", said)
	}
	if got := must(t, "get", store, "order/o1", "k"); got != "v" {
		t.Errorf("the actor has %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := program(ctx, nil, "import-rivetkit", t.TempDir()+"/data", dir); r.code != serving.ExitFailed || !strings.Contains(r.stderr, "interrupted") {
		t.Errorf("interrupted: %+v", r)
	}
}
