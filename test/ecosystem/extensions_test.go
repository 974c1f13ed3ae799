package ecosystem

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"
	"github.com/ncruces/go-sqlite3/ext/hash"
	"github.com/ncruces/go-sqlite3/ext/regexp"
	"github.com/ncruces/go-sqlite3/ext/rtree"
	"github.com/ncruces/go-sqlite3/ext/spellfix1"
	"github.com/ncruces/go-sqlite3/ext/stats"
	"github.com/ncruces/go-sqlite3/ext/unicode"
	"github.com/ncruces/go-sqlite3/ext/uuid"

	"github.com/greenroomdb/greenroom/vfs"
)

// searchable has the extensions that keep data of their own in the database.
var searchable = &vfs.Options{Extensions: []func(*sqlite3.Conn) error{
	fts5.Register, rtree.Register, // which are there, and may be registered again
	spellfix1.Register,
}}

// Full-text search is there on every connection of the pool.
func Example_fullText() {
	ctx := context.Background()
	_, db, closeAll, err := openMemory(ctx, nil)
	if err != nil {
		panic(err)
	}
	defer closeAll()
	_, err = db.ExecContext(ctx, `create virtual table page using fts5(title, body);
		insert into page values
			('Tea', 'Leaves of tea, and hot water.'),
			('Coffee', 'Beans, ground, and hot water.')`)
	if err != nil {
		panic(err)
	}
	var title, found string
	err = db.QueryRowContext(ctx, `select title, snippet(page, 1, '<', '>', '…', 3) from page where page match 'beans'`).
		Scan(&title, &found)
	if err != nil {
		panic(err)
	}
	fmt.Println(title, found)
	// Output: Coffee <Beans>, ground, and…
}

// step is a statement, or a query of one column with what it yields.
type step struct {
	query string
	want  []string
}

// Each extension is used, changed in transactions that are rolled back and committed,
// and used again after the database was closed and opened.
func TestExtensionsWithTables(t *testing.T) {
	for name, c := range map[string]struct {
		setup string
		undo  string // what is rolled back
		steps []step
	}{
		"fts5": {
			`create virtual table doc using fts5(body, tokenize = 'porter unicode61');
			insert into doc select 'word' || value || ' common running' from generate_series(1, 5000)`,
			`delete from doc where rowid % 2 = 0; insert into doc(doc) values ('optimize')`,
			[]step{
				{"select count(*) from doc where doc match 'run'", []string{"5000"}},
				{"select rowid from doc where doc match 'word4711'", []string{"4711"}},
				{"select rowid from doc where doc match 'word12* NOT common'", []string{}},
				{"select rowid from doc where doc match 'word10 OR word20' order by rank, rowid", []string{"10", "20"}},
				{"insert into doc(doc) values ('integrity-check')", nil},
				{"insert into doc(doc) values ('optimize')", nil},
			},
		},
		"rtree": {
			`create virtual table box using rtree(id, x0, x1, y0, y1, +label);
			insert into box select value, value, value + 0.5, -value, -value + 0.5, 'b' || value from generate_series(1, 3000)`,
			"delete from box where id > 10",
			[]step{
				{"select label from box where x0 >= 100 and x1 <= 101", []string{"b100"}},
				{"select count(*) from box where y0 between -20 and -11", []string{"10"}},
				{"select rtreecheck('box')", []string{"ok"}},
			},
		},
		"geopoly": {
			`create virtual table area using geopoly(name);
			insert into area(_shape, name) values ('[[0,0],[4,0],[4,4],[0,4],[0,0]]', 'square'), ('[[9,9],[10,9],[9,10],[9,9]]', 'corner')`,
			"delete from area",
			[]step{{"select name from area where geopoly_contains_point(_shape, 1, 1)", []string{"square"}}},
		},
		"spellfix1": {
			`create virtual table word using spellfix1; insert into word(word) values ('greenroom'), ('actor'), ('stage')`,
			"delete from word",
			[]step{{"select word from word where word match 'grenroom' and top = 1", []string{"greenroom"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			actor, first := open(t, searchable)
			exec(t, first, c.setup)
			exec(t, first, "begin immediate; "+c.undo+"; rollback")
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := vfs.Open(t.Context(), actor, searchable)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := again.Close(); err != nil {
					t.Error(err)
				}
			}()
			// The first pool's caches don't count: this is what is stored.
			for _, s := range c.steps {
				if s.want == nil {
					exec(t, again, s.query)
				} else if got := rows(t, again, s.query); !slices.Equal(got, s.want) {
					t.Errorf("%s: %q, want %q", s.query, got, s.want)
				}
			}
			if got := rows(t, again, "pragma integrity_check"); !slices.Equal(got, []string{"ok"}) {
				t.Error(got)
			}
		})
	}
}

// Functions of extensions, and of SQLite's own build: nothing of these is stored.
func TestFunctions(t *testing.T) {
	_, db := open(t, &vfs.Options{Extensions: []func(*sqlite3.Conn) error{
		regexp.Register, hash.Register, stats.Register, unicode.Register, uuid.Register,
	}})
	exec(t, db, `create table t(a integer primary key, g text, v real);
		insert into t(g, v) values ('x', 1), ('x', 3), ('y', 2), ('y', 4), ('y', 9)`)
	for query, want := range map[string][]string{
		// Extensions.
		"select 'room 17' regexp '[0-9]+'":    {"1"},
		"select lower(hex(md5('greenroom')))": {"10f28b0ea92e1e8b8a0bf1c1e253b757"},
		"select median(v) from t":             {"3"},
		"select upper('öl und äpfel')":        {"ÖL UND ÄPFEL"},
		"select length(uuid_str(uuid(4)))":    {"36"},
		// JSON.
		`select json_extract('{"a":[1,{"b":2}]}', '$.a[1].b')`: {"2"},
		`select '{"a":{"b":[3]}}' ->> '$.a.b[0]'`:              {"3"},
		"select json_group_array(a) from t where g = 'y'":      {"[3,4,5]"},
		"select value from json_each('[7,8]')":                 {"7", "8"},
		`select json(jsonb_set(jsonb('{"a":1}'), '$.b', 2))`:   {`{"a":1,"b":2}`},
		`select json_patch('{"a":1,"b":2}', '{"a":null}')`:     {`{"b":2}`},
		// Window functions and common table expressions.
		"select sum(v) over (partition by g order by a) from t order by a":                                       {"1", "4", "2", "6", "15"},
		"select lag(v, 1, -1) over (order by a desc) from t order by a":                                          {"3", "2", "4", "9", "-1"},
		"select count(*) over (order by v groups between 1 preceding and current row) from t order by v":         {"1", "2", "2", "2", "2"},
		"with recursive f(a, b) as (select 0, 1 union all select b, a + b from f limit 10) select max(a) from f": {"34"},
		// Mathematics and dates.
		"select round(sqrt(2), 3)":                    {"1.414"},
		"select strftime('%Y-%m-%d', 0, 'unixepoch')": {"1970-01-01"},
	} {
		if got := rows(t, db, query); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// Columns that are computed, indexes on expressions and parts of tables, strict tables,
// UPSERT and RETURNING.
func TestGeneratedColumns(t *testing.T) {
	actor, db := open(t, nil)
	exec(t, db, `create table item(
		id integer primary key,
		doc text not null check (json_valid(doc)),
		price real generated always as (doc ->> '$.price') stored,
		name text as (doc ->> '$.name') virtual
	) strict`)
	exec(t, db, "create unique index item_name on item(name)")
	exec(t, db, "create index item_dear on item(price) where price > 10")
	exec(t, db, "create index item_length on item(length(doc))")
	const upsert = `insert into item(doc) values (?) on conflict(name) do update set doc = excluded.doc returning price`
	for i, doc := range []string{`{"name":"tea","price":2.5}`, `{"name":"cake","price":14}`, `{"name":"tea","price":12.5}`} {
		if got, want := rows(t, db, upsert, doc), []string{"2.5", "14", "12.5"}[i]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %s", doc, got, want)
		}
	}
	if _, err := db.ExecContext(t.Context(), "insert into item(doc) values ('{')"); err == nil || !strings.Contains(err.Error(), "malformed JSON") {
		t.Errorf("a bad document: %v", err)
	}
	exec(t, db, `alter table item add column cents integer as (cast(price * 100 as integer)) virtual`)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := vfs.Open(t.Context(), actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}()
	if got := rows(t, again, "select name || ' ' || cents from item indexed by item_dear where price > 10 order by price"); !slices.Equal(got, []string{"tea 1250", "cake 1400"}) {
		t.Error(got)
	}
	if got := rows(t, again, "pragma integrity_check"); !slices.Equal(got, []string{"ok"}) {
		t.Error(got)
	}
}

// Without the extension a connection doesn't know the module, and says so.
func TestExtensionMissing(t *testing.T) {
	_, db := open(t, nil)
	_, err := db.ExecContext(t.Context(), "create virtual table v using spellfix1")
	if err == nil || !strings.Contains(err.Error(), "no such module") {
		t.Error(err)
	}
}
