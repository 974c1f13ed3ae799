package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/visible"
)

// everything is SQL that makes a database with all that a dump has to think of.
const everything = `
create table t(id integer primary key autoincrement, b blob, c text collate nocase default 'x', twice as (c || c), kept as (id + 1) stored, check (id > 0));
insert into t(b, c) values (x'', ''), (x'00ff', 'it''s'), (null, 'two
lines and a	tab'), (randomblob(0), 'ünïcode'), (1.5, 'x;'), (9223372036854775807, -9223372036854775808), (1e999, -1e999), (0.1, 5e-324);
delete from t where id = 1;
create table gaps(a);
insert into gaps values ('one'), ('two'), ('three');
delete from gaps where a = 'one';
create table w(k text primary key, v any) strict, without rowid;
insert into w values ('b', 1), ('a', x'01');
create table "odd ""name"("select" primary key, rowid, "a b");
insert into "odd ""name" values (1, 2, 3);
create table child(t references t(id) on delete cascade);
insert into child values (2), (3);
create unique index i on t(c, twice) where id > 3;
create index on_expression on t(lower(c));
create view v(x) as select c from t /* all */ -- of them
;
create view over_v as select * from v;
create trigger tr after insert on gaps when new.a = ';' begin
  insert into child values (new.a); -- ;
  delete from child where t = ';';
end;
create trigger instead instead of insert on v begin insert into t(c) values (new.x); end;
create virtual table f using fts5(title, body, content='gaps', content_rowid='rowid');
create virtual table words using fts5(x, tokenize = "porter ascii");
insert into words values ('running dogs'), ('a cat');
create virtual table place using rtree(id, x0, x1);
insert into place values (7, 1, 2), (8, 3, 4);
analyze;
`

// TestDump: what .dump writes makes the same database in stock sqlite3, and in another actor; and so does what sqlite3 writes.
func TestDump(t *testing.T) {
	sqlite, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("there is no sqlite3, which is what has to read it")
	}
	t.Chdir(t.TempDir())
	feed := func(text string, args ...string) string {
		t.Helper()
		r := program(t.Context(), strings.NewReader(text), args...)
		if r.code != serving.ExitOK {
			t.Fatalf("greenroom %q: status %d, %s", args, r.code, r.stderr)
		}
		return r.stdout
	}
	stock := func(text string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), sqlite, append([]string{"-batch", "-bail"}, args...)...)
		c.Stdin = strings.NewReader(text)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("sqlite3 %q: %v, %s", args, err, out)
		}
		return string(out)
	}
	// What sqlite3 itself leaves out of a dump.
	const besides = "insert into w values ('c', 'a' || char(0) || 'b' || char(0)), ('d', cast(x'ff0d0a1b' as text)); pragma user_version = 7; pragma application_id = 9;"
	feed(everything, "sql", "data", "first")
	plain := feed(".dump", "sql", "data", "first")
	feed(besides, "sql", "data", "first")
	whole := feed(".dump", "sql", "data", "first")
	const look = "pragma integrity_check; select * from words where words match 'dog'; select group_concat(rowid) from gaps; " +
		"select id, x0 from place where x1 > 3; select hex(v) from w where k = 'c'; pragma user_version; " +
		"insert into v values ('new'); select max(id), count(*) from t; pragma foreign_key_check;"
	const seen = "ok\nrunning dogs\n2,3\n8|3.0\n61006200\n7\n9|8\n"
	if visible.Text(whole, "\n\t") != whole {
		t.Error("a terminal would not show what it has")
	}

	stock(whole, "stock.db")
	must(t, "import", "data", "second", "stock.db")
	if again := feed(".dump", "sql", "data", "second"); again != whole {
		t.Errorf("by sqlite3 and back:\n%s\nwas\n%s", again, whole)
	}
	if got := stock(look, "stock.db"); got != seen {
		t.Errorf("sqlite3 sees %q, not %q", got, seen)
	}

	if got := stock(feed(".dump place", "sql", "data", "first")+look[strings.Index(look, "select id, x0"):strings.Index(look, "select hex")], ":memory:"); got != "8|3.0\n" {
		t.Errorf("a virtual table by itself has %q", got)
	}

	for name, in := range map[string]string{"piped": whole, "read": ".read whole.sql\nselect x from words where words match 'cats';\n.quit"} {
		if err := os.WriteFile("whole.sql", []byte("create table made(a); drop table made;\n"+whole), 0o600); err != nil {
			t.Fatal(err)
		}
		feed(in, "sql", "data", name)
		if again := feed(".dump", "sql", "data", name); again != whole {
			t.Errorf("%s:\n%s\nwas\n%s", name, again, whole)
		}
		if got := feed(look, "sql", "data", name); got != seen {
			t.Errorf("%s, it is %q, not %q", name, got, seen)
		}
	}

	theirs := filepath.Join(t.TempDir(), "theirs.db")
	stock(plain, theirs)
	feed(stock(".dump --preserve-rowids", theirs), "sql", "data", "theirs")
	if again := feed(".dump", "sql", "data", "theirs"); again != plain {
		t.Errorf("of what sqlite3 has dumped:\n%s\nwas\n%s", again, plain)
	}
}
