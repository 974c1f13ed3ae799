package greenroom_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// notes are the versions of a schema.
var notes = greenroom.Migrations{
	{Version: 1, Name: "notes", SQL: "create table note(id integer primary key, body text); insert into note(body) values ('first')"},
	{Version: 3, Name: "pins", SQL: "alter table note add column pinned integer not null default 0", Func: func(tx *greenroom.Tx) error {
		_, err := tx.Exec("update note set pinned = 1")
		return errors.Join(err, tx.Put([]byte("pinned"), nil))
	}},
}

// TestMigrate: an actor is brought up once, in one commit, and one that is up costs nothing.
func TestMigrate(t *testing.T) {
	engine := faultkv.New(memkv.New())
	store, err := greenroom.New(t.Context(), engine, nil)
	testkit.Must(t, err)
	open := func() *greenroom.Actor {
		t.Helper()
		a, err := store.Actor(t.Context(), "a", nil)
		testkit.Must(t, err)
		return a
	}
	a := open()
	for i, m := range []greenroom.Migrations{notes[:1], notes, notes} {
		from, err := m.Migrate(t.Context(), a)
		if want := []uint64{0, 1, 3}[i]; err != nil || from != want {
			t.Errorf("run %d: from %d, %v", i, from, err)
		}
	}
	testkit.Must(t, a.Close())
	a = open()
	before := engine.Counts()
	from, err := notes.Migrate(t.Context(), a)
	if after := engine.Counts(); err != nil || from != 3 || before != after {
		t.Errorf("of one that is up: %d, %v, %+v and %+v", from, err, before, after)
	}
	_, err = notes[:1].Migrate(t.Context(), a)
	var newer *greenroom.SchemaError
	if !errors.As(err, &newer) || *newer != (greenroom.SchemaError{Found: 3, Known: 1}) || !errors.Is(err, greenroom.ErrNewerFormat) {
		t.Errorf("of a newer one: %v", err)
	}
	testkit.Must(t, a.Update(t.Context(), func(tx *greenroom.Tx) error {
		var n, pinned, version int
		err := tx.QueryRow("select count(*), sum(pinned), (select user_version from pragma_user_version) from note").Scan(&n, &pinned, &version)
		if n != 1 || pinned != 1 || version != 3 {
			t.Errorf("%d notes, %d pinned, version %d", n, pinned, version)
		}
		return err
	}))
	testkit.Must(t, a.Close())
	before = engine.Counts()
	_, err = store.Actor(t.Context(), "a", &greenroom.ActorOptions{MaxSchema: 2})
	if !errors.As(err, &newer) || *newer != (greenroom.SchemaError{Found: 3, Known: 2}) || engine.Counts().Commits != before.Commits {
		t.Errorf("opening a newer one: %v, with %d commits", err, engine.Counts().Commits-before.Commits)
	}
	a, err = store.Actor(t.Context(), "a", &greenroom.ActorOptions{MaxSchema: 3})
	testkit.Must(t, err)
	testkit.Must(t, a.Close())
	testkit.Must(t, store.Close())
}

// TestMigrateFails: whatever fails, the actor is as before; and at each moment at which the engine fails it is old or new, never between.
func TestMigrateFails(t *testing.T) {
	for name, last := range map[string]greenroom.Migration{
		"statement": {Version: 9, Name: "bad", SQL: "alter table note add column a; alter table nothing add column b"},
		"function":  {Version: 9, Name: "bad", SQL: "alter table note add column a", Func: func(*greenroom.Tx) error { return errors.New("no") }},
		"commit":    {Version: 9, Name: "bad", SQL: "commit"},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := greenroom.New(t.Context(), memkv.New(), nil)
			testkit.Must(t, err)
			a, err := store.Actor(t.Context(), "a", nil)
			testkit.Must(t, err)
			_, err = notes[:1].Migrate(t.Context(), a)
			testkit.Must(t, err)
			if _, err := append(notes[:2:2], last).Migrate(t.Context(), a); err == nil || name != "commit" && !strings.Contains(err.Error(), "migration 9 bad") {
				t.Errorf("the error is %v", err)
			}
			if at := a.Lower().Attributes().Schema; at != 1 {
				t.Errorf("it has version %d", at)
			}
			testkit.Must(t, a.Update(t.Context(), func(tx *greenroom.Tx) error {
				var columns int
				err := tx.QueryRow("select count(*) from pragma_table_info('note')").Scan(&columns)
				if columns != 2 {
					t.Errorf("note has %d columns", columns)
				}
				return err
			}))
			testkit.Must(t, errors.Join(a.Close(), store.Close()))
		})
	}
}

// TestMigrationsCheck: migrations that make no sense are refused.
func TestMigrationsCheck(t *testing.T) {
	for name, m := range map[string]greenroom.Migrations{
		"zero":    {{Version: 0, SQL: "select 1"}},
		"order":   {{Version: 2, SQL: "select 1"}, {Version: 1, SQL: "select 1"}},
		"twice":   {{Version: 2, SQL: "select 1"}, {Version: 2, SQL: "select 1"}},
		"large":   {{Version: 1 << 31, SQL: "select 1"}},
		"nothing": {{Version: 1, SQL: " \n"}},
	} {
		if err := m.Check(); !errors.Is(err, greenroom.ErrMigrations) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReadMigrations: files are read as goose and golang-migrate name them.
func TestReadMigrations(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"goose": {fstest.MapFS{
			"00001_notes.sql": file("-- +goose Up\n-- +goose StatementBegin\ncreate table a(b);\n-- +goose StatementEnd\n\n-- +goose Down\ndrop table a;\n"),
			"00002_pins.sql":  file("-- a comment\n-- +goose  up\ncreate table c(d);\n"), "README.md": file("-- +goose Up"),
		}, `[{1 notes "create table a(b);\n\n"} {2 pins "create table c(d);\n"}]`},
		"goose, other spaces": {fstest.MapFS{"1_a.sql": file("--+goose Up\ncreate table a(b);\n--\t +goose Down\ndrop table a;\n")}, `[{1 a "create table a(b);\n"}]`},
		"golang-migrate": {fstest.MapFS{
			"2_pins.up.sql": file("create table c(d);"), "1_notes.up.sql": file("create table a(b);"), "1_notes.down.sql": file("drop table a"), "10_last.up.sql": file("select 1"),
		}, `[{1 notes "create table a(b);"} {2 pins "create table c(d);"} {10 last "select 1"}]`},
		"times": {fstest.MapFS{
			"20261129120000_b.sql": file("select 2"), "20000101000001_a.sql": file("select 1"),
		}, `[{1 a "select 1"} {849268800 b "select 2"}]`},
		"mixed":     {fstest.MapFS{"20261129120000_b.sql": file("select 2"), "7_a.sql": file("select 1")}, `[{7 a "select 1"} {849268800 b "select 2"}]`},
		"no number": {fstest.MapFS{"notes.sql": file("select 1")}, "notes.sql doesn't begin with a version and _"},
		"no name":   {fstest.MapFS{"1.sql": file("select 1")}, "1.sql doesn't begin with a version and _"},
		"too far":   {fstest.MapFS{"20990101000000_a.sql": file("select 1")}, "doesn't begin with a version"},
		"no time":   {fstest.MapFS{"20261329120000_a.sql": file("select 1")}, "doesn't begin with a version"},
		"twice":     {fstest.MapFS{"1_a.sql": file("select 1"), "01_b.sql": file("select 1")}, "version 1 comes behind version 1"},
		"go":        {fstest.MapFS{"00003_go.go": file("package m")}, "00003_go.go is in Go"},
		"no tx":     {fstest.MapFS{"1_a.sql": file("-- +goose NO TRANSACTION\n-- +goose Up\nvacuum")}, "1_a.sql has \"-- +goose NO TRANSACTION\""},
		"empty":     {fstest.MapFS{"1_a.sql": file("-- +goose Up\n-- +goose Down\nselect 1")}, "version 1 has nothing to do"},
	} {
		got, err := greenroom.ReadMigrations(c.files)
		text := "["
		for i, m := range got {
			if i > 0 {
				text += " "
			}
			text += fmt.Sprintf("{%d %s %q}", m.Version, m.Name, m.SQL)
		}
		if text += "]"; err != nil {
			if text = err.Error(); !errors.Is(err, greenroom.ErrMigrations) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}
