package vfs_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// own registers a function, a collation and a module, as programs do.
func own(c *sqlite3.Conn) error {
	err := c.CreateCollation("german", func(a, b []byte) int { return strings.Compare(strings.ToLower(string(a)), strings.ToLower(string(b))) })
	if err != nil {
		return err
	}
	return c.CreateFunction("slug", 1, sqlite3.DETERMINISTIC|sqlite3.INNOCUOUS, func(ctx sqlite3.Context, arg ...sqlite3.Value) {
		ctx.ResultText(strings.ToLower(arg[0].Text()))
	})
}

// TestCheckOwn: what only the program's own functions and collations can check is said of its table, and is not a fault. The
// other tables are checked.
func TestCheckOwn(t *testing.T) {
	store, err := actorstore.Open(t.Context(), memkv.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := store.Named(t.Context(), "own", nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := vfs.Open(t.Context(), a, &vfs.Options{Extensions: []vfs.Extension{own}})
	if err != nil {
		t.Fatal(err)
	}
	exec := func(db *sql.DB, statements ...string) {
		t.Helper()
		for _, s := range statements {
			if _, err := db.Exec(s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
	}
	exec(db.DB,
		"create table plain(x unique)", "insert into plain values(1),(2)",
		"create table collated(name text collate german)", "create index c on collated(name)", "insert into collated values('A'),('b')",
		"create table computed(name text, s text as (slug(name)))", "create index f on computed(slug(name))", "insert into computed(name) values('A')",
		"create table checked(v check (slug(v) <> 'x'))", "insert into checked values('y')",
		"create view seen as select slug(name) from computed",
	)
	want := []string{
		"harmless: sqlite: table collated can't be checked here, but by its program: no such collation sequence: german",
		"harmless: sqlite: table computed can't be checked here, but by its program: unknown function: slug()",
	}
	compareFindings(t, checkView(t, store, a.ID(), nil), want)
	view, err := store.View(t.Context(), a.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	for f, err := range vfs.Check(t.Context(), view, nil) {
		if err != nil || !f.Unchecked || !f.Harmless || f.Unfinished {
			t.Errorf("%+v, %v", f, err)
		}
	}
	// An index that doesn't have what its table has, beside those.
	exec(db.DB, "pragma writable_schema = on", "create table other(x)", "insert into other values(3)",
		"update sqlite_schema set rootpage = (select rootpage from sqlite_schema where name = 'other') where name = 'plain'")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	got := checkView(t, store, a.ID(), nil)
	var faults int
	for _, line := range got {
		if strings.HasPrefix(line, "sqlite: ") && strings.Contains(line, "index sqlite_autoindex_plain_1") {
			faults++
		}
	}
	if faults == 0 || len(got) < len(want)+faults {
		t.Errorf("beside tables that can't be checked it has found\n%s", strings.Join(got, "\n"))
	}
	seen := map[string]bool{}
	for _, line := range got {
		if seen[line] {
			t.Errorf("found twice: %s", line)
		}
		seen[line] = true
	}
}
