package wasm

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/sqlconfine"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// memory opens a database in memory, with or without what confines modules.
func memory(t testing.TB, setUp ...func(*sqlite3.Conn) error) *sqlite3.Conn {
	t.Helper()
	c, err := sqlite3.Open(":memory:")
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	for _, fn := range setUp {
		must(t, fn(c))
	}
	return c
}

// confined opens a database in memory that is confined as a module's is.
func confined(t testing.TB) *sqlite3.Conn {
	t.Helper()
	return memory(t, (&Module{opts: (*Options)(nil).orDefault()}).confine)
}

// column returns the first column of what a query finds.
func column(t testing.TB, c *sqlite3.Conn, query string) (all []string) {
	t.Helper()
	s, _, err := c.Prepare(query)
	must(t, err)
	for s.Step() {
		all = append(all, s.ColumnText(0))
	}
	must(t, s.Close())
	return all
}

// What SQLite has and modules don't. What a newer one adds belongs in one list or the other.
var (
	otherFunctions = strings.Fields(`
		decimal decimal_add decimal_cmp decimal_exp decimal_mul decimal_pow2 decimal_sub decimal_sum ieee754 ieee754_exponent
		ieee754_from_blob ieee754_from_int ieee754_inc ieee754_mantissa ieee754_to_blob ieee754_to_int json_patch json_pretty
		jsonb_patch match regexp regexpi sqlite_compileoption_get sqlite_compileoption_used sqlite_log`)
	otherCollations = []string{"decimal"}
	otherPragmas    = strings.Fields(`
		analysis_limit auto_vacuum automatic_index busy_timeout cache_size cache_spill case_sensitive_like cell_size_check
		checkpoint_fullfsync count_changes empty_result_callbacks full_column_names fullfsync hard_heap_limit
		ignore_check_constraints incremental_vacuum journal_mode journal_size_limit legacy_alter_table locking_mode
		max_page_count mmap_size query_only read_uncommitted recursive_triggers reverse_unordered_selects secure_delete
		short_column_names shrink_memory soft_heap_limit synchronous temp_store temp_store_directory threads trusted_schema
		wal_autocheckpoint wal_checkpoint writable_schema`)
)

// TestAllowed checks that each feature of SQLite is either allowed or refused, and on the page.
func TestAllowed(t *testing.T) {
	page, err := os.ReadFile("../../docs/wasm.md")
	must(t, err)
	c := memory(t)
	for _, x := range []string{"json_each", "json_tree", "jsonb_each", "jsonb_tree"} { // there from their first use on
		column(t, c, "select 1 from "+x+"('[]')")
	}
	var pragmas []string
	for name := range allowedPragmas {
		pragmas = append(pragmas, name)
	}
	for _, list := range []struct {
		query            string
		allowed, refused []string
	}{
		{"select distinct name from pragma_function_list", sqlconfine.Functions, otherFunctions},
		{"select name from pragma_module_list where name not like 'pragma_%'", allowedModules, nil},
		{"select name from pragma_collation_list", allowedCollations, otherCollations},
		{"select name from pragma_pragma_list union select 'greenroom_stats'", pragmas, otherPragmas},
	} {
		there := column(t, c, list.query)
		for _, name := range there {
			if slices.Contains(list.allowed, name) == slices.Contains(list.refused, name) {
				t.Errorf("%s: %s is neither allowed nor refused, or both", list.query, name)
			}
		}
		for _, name := range slices.Concat(list.allowed, list.refused) {
			if !slices.Contains(there, name) {
				t.Errorf("%s: there is no %s", list.query, name)
			}
		}
		for _, name := range list.allowed {
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("the page doesn't have `%s`", name)
			}
		}
	}
}

// TestRefused tries what modules must not do. It must change nothing.
func TestRefused(t *testing.T) {
	withGo(t, func(r *rig) {
		for _, s := range []string{
			"PRAGMA query_only=1", "pragma Main.Query_Only(1)", "PRAGMA query_only", "PRAGMA hard_heap_limit=100000", "PRAGMA cache_size=-4000000",
			"PRAGMA max_page_count=1", "PRAGMA writable_schema=1", "PRAGMA temp_store=1", "PRAGMA temp_store_directory='/etc'",
			"PRAGMA case_sensitive_like=1", "PRAGMA recursive_triggers=0", "PRAGMA journal_mode=wal", "PRAGMA main.journal_mode=off",
			"PRAGMA schema_version=77", "PRAGMA encoding='UTF-16'", "PRAGMA page_size=512", "PRAGMA nonsense", "PRAGMA busy_timeout=1",
			"PRAGMA threads=8", "PRAGMA analysis_limit=0", "PRAGMA incremental_vacuum", "PRAGMA wal_checkpoint",
			"CREATE TEMP TABLE x(a)", "CREATE TABLE temp.x(a)", "CREATE TEMP TABLE x AS SELECT 1", "CREATE TEMP VIEW x AS SELECT 1",
			"CREATE TEMP TRIGGER x AFTER INSERT ON book BEGIN SELECT 1; END", "EXPLAIN ATTACH 'x' AS y", "EXPLAIN COMMIT", "EXPLAIN SAVEPOINT a",
			"EXPLAIN DETACH main", "EXPLAIN PRAGMA query_only=1",
		} {
			if got := call1[[]string](r, lobby, "sql", []string{s}); got[0] != "bad_query" {
				t.Errorf("%s: %q", s, got)
			}
		}
		for _, s := range []string{
			"SELECT * FROM pragma_query_only", "SELECT * FROM pragma_hard_heap_limit(100000)", "SELECT decimal_mul('1', '1')",
			"SELECT 'a' REGEXP 'a'", "SELECT json_patch('{}', '{}')", "SELECT 1 ORDER BY 1 COLLATE decimal", "SELECT load_extension('x')",
			"SELECT json_pretty('[]')", "SELECT json_pretty('[]', '')",
			"SELECT * FROM sqlite_dbpage", "SELECT * FROM dbstat", "CREATE VIRTUAL TABLE v USING csv(filename='/etc/passwd')",
			"CREATE VIRTUAL TABLE v USING generate_series", "DELETE FROM sqlite_master", "CREATE TABLE sqlite_stat4(a)",
			"SELECT " + strings.Repeat("x", 64<<10),
		} {
			if got := r.code(lobby, "find", s); got != "sql" && got != "bad_query" {
				t.Errorf("%.80s: %q", s, got)
			}
		}
		for _, s := range []string{
			"PRAGMA user_version=7", "PRAGMA foreign_keys=ON", "PRAGMA defer_foreign_keys=ON", "PRAGMA table_info(book)", "PRAGMA optimize",
			"PRAGMA integrity_check", "PRAGMA foreign_key_check", "ANALYZE", "REINDEX", "CREATE TABLE y(a)", "ALTER TABLE y ADD COLUMN b AS (upper(a))",
			"ALTER TABLE y RENAME COLUMN a TO c", "ALTER TABLE y DROP COLUMN b", "ALTER TABLE y RENAME TO z", "CREATE INDEX zi ON z(lower(c))",
			"CREATE VIEW zv AS SELECT c LIKE '%a%' FROM z", "CREATE TRIGGER zt AFTER INSERT ON z BEGIN UPDATE z SET c = trim(c); END",
			"INSERT INTO z VALUES(' a ')", "DROP TABLE z", "DROP VIEW zv",
			"INSERT INTO book VALUES " + strings.TrimSuffix(strings.Repeat("(abs(random()),lower('X')),", 1000), ","),
			"DELETE FROM book WHERE amount IN (" + strings.TrimSuffix(strings.Repeat("1,", 600), ",") + ")",
		} {
			if got := call1[[]string](r, lobby, "sql", []string{s}); got[0] == "sql" || got[0] == "bad_query" {
				t.Errorf("%.80s: %q", s, got)
			}
		}
		if got := call1[[]string](r, lobby, "find", "SELECT user_version FROM pragma_user_version"); !slices.Equal(got, []string{"7"}) {
			t.Errorf("user_version is %q", got)
		}
	})
}

// TestStoredFunctions calls functions that a schema has, which an authorizer isn't asked
// about: of an owner that wasn't confined, and by ALTER TABLE.
func TestStoredFunctions(t *testing.T) {
	file := "file:" + t.TempDir() + "/x.db"
	owner, err := sqlite3.Open(file)
	must(t, err)
	must(t, owner.Exec(`create table t(a, b as (decimal_mul(a, a))); create view v as select decimal_mul(a, a) from t;
		insert into t values('3'); create table u(a); insert into u values('3'); create index i on u(decimal_mul(a, a))`))
	c, err := sqlite3.Open(file)
	must(t, err)
	must(t, (&Module{opts: (*Options)(nil).orDefault()}).confine(c))
	must(t, c.Exec("alter table u add column b as (decimal_mul(a, a))"))
	for _, q := range []string{"select b from t", "select * from v", "select b from u", "insert into u values('3')"} {
		if err := c.Exec(q); err == nil || !strings.Contains(err.Error(), "modules don't have the function decimal_mul") {
			t.Errorf("%s: %v", q, err)
		}
	}
	must(t, c.Close())
	must(t, owner.Close())
}

// TestDiscard checks that a connection isn't used again after a turn on it failed, and that
// another one is.
func TestDiscard(t *testing.T) {
	withGo(t, func(r *rig) {
		call1[int](r, lobby, "book", 100)
		for _, test := range []struct {
			amount     int
			code, want string
		}{{1, "", "1"}, {-500, "overdrawn", "0"}} {
			if got := r.code(lobby, "book", test.amount); got != test.code {
				t.Errorf("got %q, want %q", got, test.code)
			}
			if got := call1[[]string](r, lobby, "find", "SELECT total_changes() > 0"); !slices.Equal(got, []string{test.want}) {
				t.Errorf("after %q: %q, want %s", test.code, got, test.want)
			}
		}
	})
}

// chain returns n times x, with sep between them, in parentheses that nest as little as can
// be.
func chain(n int, x, sep string) string {
	return chainOf(n, func(int) string { return x }, sep)
}

// chainOf is chain for parts that differ.
func chainOf(n int, part func(i int) string, sep string) string {
	var parts func(from, to int) string
	parts = func(from, to int) string {
		if to-from == 1 {
			return part(from)
		}
		half := (from + to) / 2
		return "(" + parts(from, half) + sep + parts(half, to) + ")"
	}
	return parts(0, n)
}

// TestCosts looks which statements cost too much. With the largest values they would take
// some seconds or minutes, between two looks at the time.
func TestCosts(t *testing.T) {
	withGo(t, func(r *rig) {
		call1[int](r, lobby, "book", 1)
		var views []string
		for i := range 12 {
			views = append(views, fmt.Sprintf("CREATE VIEW v%d AS SELECT a||a AS a FROM %s", i+1, map[bool]string{true: "(SELECT note AS a FROM book)", false: fmt.Sprint("v", i)}[i == 0]))
		}
		call1[[]string](r, lobby, "sql", append(views, "ALTER TABLE book ADD COLUMN at"))
		// What it costs is looked at each time.
		const copies = "INSERT INTO book(note) SELECT max(a) FROM w"
		got := call1[[]string](r, lobby, "sql", []string{
			"CREATE VIEW w AS SELECT a FROM v1", copies, copies, "DROP VIEW w", "CREATE VIEW w AS SELECT a FROM v12", copies, copies,
		})
		if want := []string{"1", "1", "1", "1", "1", "bad_query", "bad_query"}; !slices.Equal(got, want) {
			t.Errorf("a statement that is run again: %q, want %q", got, want)
		}
		for q, want := range map[string]string{
			"SELECT " + chain(110, "amount", "+") + " FROM book":                            "",
			"SELECT " + chain(130, "amount", "+") + " FROM book":                            "bad_query",
			"SELECT " + chain(190, "upper(note)", "||") + " FROM book":                      "",
			"SELECT " + chain(220, "upper(note)", "||") + " FROM book":                      "bad_query",
			"SELECT " + chain(38, "json(at)", "||") + " FROM book":                          "",
			"SELECT " + chain(44, "json(at)", "||") + " FROM book":                          "bad_query",
			"SELECT " + chain(20, "json_set(at, '$.a', 1, '$.b', 2)", "||") + " FROM book":  "bad_query",
			"SELECT max(a) FROM v7":                                                         "",
			"SELECT max(a) FROM v12":                                                        "bad_query",
			"SELECT amount FROM book WHERE amount IN (" + strings.Repeat("1,", 900) + "1)":  "",
			"SELECT amount FROM book WHERE amount IN (" + strings.Repeat("1,", 1100) + "1)": "bad_query",
			"VALUES " + strings.Repeat("(upper('a')),", 1000) + "(lower('A'))":              "",
			"SELECT CASE amount " + strings.Repeat("WHEN 2 THEN 3 ", 260) + "END FROM book": "bad_query",
		} {
			if got := r.code(lobby, "find", q); got != want {
				t.Errorf("%.80s, of %d bytes: %q, want %q", q, len(q), got, want)
			}
		}
	})
}

// TestStatementTime runs statements that took minutes or hours. The bound is a watchdog:
// they end at once, or soon after their time.
func TestStatementTime(t *testing.T) {
	c := confined(t)
	must(t, c.Exec("create table t(a,b,c,d,e,f,g,h); create index i on t(a,b); create index j on t(c,d,e); create index k on t(h,g,f)"))
	column := func(i int) string { return string("abcdefgh"[i%8]) }
	many := func(n int, part func(i int) string, sep string) string {
		var all []string
		for i := range n {
			all = append(all, part(i))
		}
		return strings.Join(all, sep)
	}
	const long = "printf('%.*c', 1000000, 'a')"
	const half = "printf('%.*c', 500000, 'a') || 'b'"
	keys := "(select '{' || group_concat('\"' || value || '\":1') || '}' from generate_series(1, 60000))"
	for name, q := range map[string]string{
		"like":       "select " + long + " like '%" + strings.Repeat("a", 49000) + "b'",
		"like half":  "select " + long + " like '%' || " + half,
		"glob":       "select " + long + " glob '*' || " + half,
		"instr":      "select instr(" + long + ", " + half + ")",
		"many instr": "select " + many(50, func(int) string { return "instr(" + long + ", " + half + ")" }, "+"),
		"replace":    "select replace(" + long + ", " + half + ", 'x')",
		"trim":       "select trim(" + long + ", " + strings.ReplaceAll(half, "a", "c") + ")",
		"decimal":    "select decimal_mul(printf('%.*c', 400000, '9'), printf('%.*c', 400000, '9'))",
		"json_patch": "select json_patch(" + keys + ", " + keys + ")",
		"unhex":      "select unhex(" + strings.ReplaceAll(long, "a", "z") + ", " + strings.ReplaceAll(half, "a", "y") + " || 'z')",
		"sums":       "select " + chain(120, "x", "+") + " from (select replace(" + long + ", 'a', '9') as x limit 1)",
		"documents":  "select " + chain(35, "length(json(x))", "+") + " from (select '[' || replace(printf('%.*c', 400000, 'a'), 'a', '1,') || '1]' as x limit 1)",
		"join": "select 1 from " + many(60, func(i int) string { return fmt.Sprint("t t", i) }, ",") + " where " +
			chainOf(2500, func(i int) string {
				return fmt.Sprintf("t%d.%s=t%d.%s", i%60, column(i), (i*7+1)%60, column(i/8))
			}, " and "),
		"ors": "select 1 from t where " + many(350, func(i int) string {
			return "(" + many(20, func(j int) string { return fmt.Sprint(column(j), "=", i) }, " or ") + ")"
		}, " and "),
		"ins": "select 1 from t where " + many(900, func(i int) string { return fmt.Sprint(column(i), " in (1,2,3,4,5,6,", i, ")") }, " and "),
		"terms": "select 1 from t where " + chainOf(3000, func(i int) string { return fmt.Sprint(column(i), "=", i) }, " and ") + " and " +
			chainOf(2000, func(i int) string { return column(i) + "+1>" + column(i/8) }, " and "),
	} {
		t.Run(name, func(t *testing.T) {
			if testkit.Race && (name == "sums" || name == "documents") {
				t.Skip("what isn't interrupted takes long with the race detector")
			}
			const limit = 100 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			c.SetInterrupt(ctx)
			defer c.SetInterrupt(context.Background())
			begun := time.Now()
			s, _, err := c.Prepare(q)
			if err == nil {
				for s.Step() {
				}
				err = s.Close()
			}
			t.Logf("%v after %v", err, time.Since(begun))
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestDeep nests so many SELECTs that SQLite runs out of its stack, and looks that the turn
// ends, and the next one works.
func TestDeep(t *testing.T) {
	withGo(t, func(r *rig) {
		var b strings.Builder
		b.WriteString("WITH c0 AS (SELECT 1 x)")
		for i := range 1500 {
			fmt.Fprintf(&b, ", c%d AS (SELECT * FROM c%d)", i+1, i)
		}
		call1[int](r, lobby, "book", 1)
		if got := r.code(lobby, "find", b.String()+" SELECT * FROM c1500"); got != "sql" {
			t.Errorf("got %q", got)
		}
		if got := call1[int](r, lobby, "book", 10); got != 11 {
			t.Errorf("balance %d", got)
		}
	})
}

// TestTempBytes looks that a sort gets no more room than it may have, and the turn can land
// all the same.
func TestTempBytes(t *testing.T) {
	m := thing(t)
	kind := m.Type()
	if kind.DB.TempBytes != defaultTempBytes {
		t.Errorf("an actor's temporary files have room for %d bytes", kind.DB.TempBytes)
	}
	kind.DB.TempBytes = 1 << 20
	r := newRigOf(t, kind, host.Options{})
	call1[int](r, lobby, "book", 1)
	sort := func(rows int) string {
		return fmt.Sprintf("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x < %d) SELECT count(DISTINCT printf('%%01000d', x)) FROM c", rows)
	}
	if got := r.code(lobby, "find", sort(100)); got != "" {
		t.Errorf("a small sort: %q", got)
	}
	if got := r.code(lobby, "find", sort(20_000)); got != "sql" {
		t.Errorf("a sort of 20 MB: %q", got)
	}
	call1[int](r, lobby, "book", 2)
	r.close()
}
