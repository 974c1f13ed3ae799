package vfs_test

import (
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	sqlitedriver "github.com/ncruces/go-sqlite3/driver"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs"
)

// readAll returns what a query answers: its columns, and its rows as text.
func readAll(rows *sql.Rows, err error) (columns []string, lines []string, _ error) {
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	if columns, err = rows.Columns(); err != nil {
		return nil, nil, err
	}
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			return nil, nil, err
		}
		line := ""
		for _, v := range values {
			line += fmt.Sprint(*v.(*any), " ")
		}
		lines = append(lines, line)
	}
	return columns, lines, rows.Err()
}

// TestSchemaChanged: a query has the columns of the schema that it reads, whichever connection changed it
// since the statement or the connection saw it last.
func TestSchemaChanged(t *testing.T) {
	changes := []struct {
		sql     string
		columns []string
		rows    []string
	}{
		{"ALTER TABLE t ADD COLUMN age DEFAULT 7", []string{"id", "name", "age"}, []string{"1 Ada 7 ", "2 Bo 7 "}},
		{"ALTER TABLE t DROP COLUMN age", []string{"id", "name"}, []string{"1 Ada ", "2 Bo "}},
		{"ALTER TABLE t RENAME COLUMN name TO label", []string{"id", "label"}, []string{"1 Ada ", "2 Bo "}},
		{"DROP TABLE t; CREATE TABLE t(a, b, c); INSERT INTO t VALUES(1, 2, 3)", []string{"a", "b", "c"}, []string{"1 2 3 "}},
		{"DROP TABLE t; CREATE VIEW t AS SELECT 5 AS five", []string{"five"}, []string{"5 "}},
		{"DROP VIEW t; CREATE TABLE t(none)", []string{"none"}, nil},
	}
	for _, pragma := range []string{"journal_mode=DELETE", "journal_mode=WAL"} {
		for _, of := range []string{"another connection", "the same connection"} {
			t.Run(pragma+" "+of, func(t *testing.T) {
				r := newRig(t, batch.Limits{})
				db := r.open(t, &vfs.Options{Pragmas: []string{pragma}})
				reads, prepares, writes := oneConn(t, db), oneConn(t, db), oneConn(t, db)
				exec(t, writes, "CREATE TABLE t(id INTEGER PRIMARY KEY, name); INSERT INTO t(name) VALUES('Ada'), ('Bo')")
				if of == "the same connection" {
					reads, prepares = writes, writes
				}
				prepared, err := prepares.PrepareContext(t.Context(), "SELECT * FROM t")
				if err != nil {
					t.Fatal(err)
				}
				defer prepared.Close()
				for _, c := range changes {
					if _, _, err := readAll(reads.QueryContext(t.Context(), "SELECT * FROM t")); err != nil {
						t.Fatal(err)
					}
					exec(t, writes, c.sql)
					for what, query := range map[string]func() (*sql.Rows, error){
						"a query":          func() (*sql.Rows, error) { return reads.QueryContext(t.Context(), "SELECT * FROM t") },
						"a prepared query": func() (*sql.Rows, error) { return prepared.QueryContext(t.Context()) },
					} {
						columns, rows, err := readAll(query())
						if err != nil || !slices.Equal(columns, c.columns) || !slices.Equal(rows, c.rows) {
							t.Errorf("%s after %s: %q, %q, %v, want %q, %q", what, c.sql, columns, rows, err, c.columns, c.rows)
						}
					}
				}
			})
		}
	}
}

// TestNoSQL: a text without SQL does nothing, and no harm to a transaction.
func TestNoSQL(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, "CREATE TABLE t(v)")
	for _, text := range []string{"", " \t\n", ";", " ; ;", "-- nothing", "/* nothing */", "-- nothing\n;", "/* open"} {
		if err := db.Update(t.Context(), func(tx *vfs.Tx) error {
			exec(t, tx, "INSERT INTO t VALUES(1)")
			if columns, rows, err := readAll(tx.QueryContext(t.Context(), text)); err != nil || len(columns)+len(rows) > 0 {
				t.Errorf("query of %q: %q, %q, %v", text, columns, rows, err)
			}
			if err := tx.QueryRowContext(t.Context(), text).Scan(new(int)); !errors.Is(err, sql.ErrNoRows) {
				t.Errorf("a row of %q: %v", text, err)
			}
			s, err := tx.PrepareContext(t.Context(), text)
			if err != nil {
				return err
			}
			defer s.Close()
			if _, rows, err := readAll(s.QueryContext(t.Context())); err != nil || len(rows) > 0 {
				t.Errorf("%q, prepared: %q, %v", text, rows, err)
			}
			if _, err := s.ExecContext(t.Context()); err != nil {
				t.Errorf("%q, prepared and executed: %v", text, err)
			}
			exec(t, tx, text)
			exec(t, tx, "INSERT INTO t VALUES(2)")
			return nil
		}); err != nil {
			t.Errorf("Update with %q: %v", text, err)
		}
	}
	if got := one[int](t, db, "SELECT count(*) FROM t"); got != 16 {
		t.Errorf("%d rows landed, want 16", got)
	}
	for _, text := range []string{"; SELECT 1", "-- first\nSELECT 1", "SELECT 1; -- behind", "SELECT 1;;"} {
		if got := one[int](t, db, text); got != 1 {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// TestRowsLeftOpen: rows that the function of an Update leaves open don't keep it from
// committing, and what their statement did is done.
func TestRowsLeftOpen(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, "CREATE TABLE t(id INTEGER PRIMARY KEY, label)")
	query := func(text string, read int) func(*vfs.Tx) *sql.Rows {
		return func(tx *vfs.Tx) *sql.Rows {
			rows, err := tx.QueryContext(t.Context(), text)
			if err != nil {
				t.Fatal(err)
			}
			for range read {
				rows.Next()
			}
			return rows
		}
	}
	for _, c := range []struct {
		what  string
		leave func(*vfs.Tx) *sql.Rows
		want  string
	}{
		{"a select", query("SELECT 1 UNION SELECT 2", 0), "w"},
		{"a select, a row read", query("SELECT 1 UNION SELECT 2", 1), "w"},
		{"an insert, no row read", query("INSERT INTO t(label) VALUES('a'), ('b') RETURNING id", 0), "w,a,b"},
		{"an insert, a row read", query("INSERT INTO t(label) VALUES('a'), ('b') RETURNING id", 1), "w,a,b"},
		{"an insert, all read", query("INSERT INTO t(label) VALUES('a') RETURNING id", 2), "w,a"},
		{"an update, a row read", query("UPDATE t SET label = 'new' WHERE label = 'w' RETURNING id", 1), "new"},
		{"an insert, never scanned", func(tx *vfs.Tx) *sql.Rows {
			tx.QueryRowContext(t.Context(), "INSERT INTO t(label) VALUES('a') RETURNING id")
			return nil
		}, "w,a"},
	} {
		var left *sql.Rows
		if err := db.Update(t.Context(), func(tx *vfs.Tx) error {
			exec(t, tx, "INSERT INTO t(label) VALUES('w')")
			left = c.leave(tx)
			return nil
		}); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if left != nil && left.Next() {
			t.Errorf("%s: a row after the end", c.what)
		}
		if got := one[string](t, db, "SELECT coalesce(group_concat(label), '') FROM t"); got != c.want {
			t.Errorf("%s: %s landed, want %s", c.what, got, c.want)
		}
		exec(t, db, "DELETE FROM t")
	}
}

// TestErrorBeyondText: an error whose place is in the schema, behind the end of the text that
// was given, is an error, and the connection goes on.
func TestErrorBeyondText(t *testing.T) {
	r := newRig(t, batch.Limits{})
	slug := func(c *sqlite3.Conn) error {
		return c.CreateFunction("slug", 1, sqlite3.DETERMINISTIC|sqlite3.INNOCUOUS, func(ctx sqlite3.Context, arg ...sqlite3.Value) { ctx.ResultText("s") })
	}
	db := r.open(t, &vfs.Options{Extensions: []vfs.Extension{slug}})
	exec(t, db, "CREATE TABLE t(name TEXT, CHECK (slug(name) <> 'x')); CREATE TABLE landed(v)")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = r.open(t, nil)
	for _, text := range []string{"PRAGMA integrity_check", "INSERT INTO t VALUES(1)", "INSERT INTO t VALUES(?)", "INSERT INTO t(name) VALUES('a long text, behind the place')"} {
		args := make([]any, strings.Count(text, "?"))
		if err := db.Update(t.Context(), func(tx *vfs.Tx) error {
			exec(t, tx, "INSERT INTO landed VALUES(1)")
			_, errExec := tx.ExecContext(t.Context(), text, args...)
			_, _, errQuery := readAll(tx.QueryContext(t.Context(), text, args...))
			for _, err := range []error{errExec, errQuery} {
				if err == nil || !strings.Contains(err.Error(), "unknown function: slug()") {
					t.Errorf("%s: %v", text, err)
				}
			}
			exec(t, tx, "INSERT INTO landed VALUES(2)")
			return nil
		}); err != nil {
			t.Errorf("Update with %s: %v", text, err)
		}
	}
	if got := one[int](t, db, "SELECT count(*) FROM landed"); got != 8 {
		t.Errorf("%d rows landed, want 8", got)
	}
}

// TestTooDeep: a statement for which SQLite's stack has no room is an error that says so,
// and costs the pool a connection.
func TestTooDeep(t *testing.T) {
	t.Parallel()
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{MaxConns: 1})
	exec(t, db, "CREATE TABLE t(v)")
	var ctes, views strings.Builder
	ctes.WriteString("WITH c0 AS (SELECT 1 AS x)")
	views.WriteString("CREATE VIEW v0 AS SELECT 1 AS x")
	for i := range 1000 {
		fmt.Fprintf(&ctes, ", c%d AS (SELECT x FROM c%d)", i+1, i)
		fmt.Fprintf(&views, "; CREATE VIEW v%d AS SELECT x FROM v%d", i+1, i)
	}
	exec(t, db, views.String())
	for what, text := range map[string]string{
		"operators":   "SELECT " + strings.Repeat("NOT ", 900) + "1",
		"expressions": ctes.String() + " SELECT * FROM c1000",
		"views":       "SELECT * FROM v1000",
	} {
		if _, _, err := readAll(db.QueryContext(t.Context(), text)); !errors.Is(err, vfs.ErrTooDeep) || !errors.Is(err, sqlite3.ERROR) {
			t.Errorf("%s: %v", what, err)
		}
		err := db.Update(t.Context(), func(tx *vfs.Tx) error {
			exec(t, tx, "INSERT INTO t VALUES(1)")
			_, err := tx.ExecContext(t.Context(), text)
			return err
		})
		if !errors.Is(err, vfs.ErrTooDeep) {
			t.Errorf("Update with %s: %v", what, err)
		}
	}
	if got := one[int](t, db, "SELECT count(*) FROM t"); got != 0 {
		t.Errorf("%d rows landed", got)
	}
}

// TestLongName: a column with a name that go-sqlite3 doesn't read is an error, and the
// transaction goes on.
func TestLongName(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, "CREATE TABLE t(v)")
	long := "SELECT '" + strings.Repeat("x", 1_000_000) + "'"
	if err := db.Update(t.Context(), func(tx *vfs.Tx) error {
		exec(t, tx, "INSERT INTO t VALUES(1)")
		if _, _, err := readAll(tx.QueryContext(t.Context(), long)); !errors.Is(err, vfs.ErrUnsupported) {
			t.Errorf("without a name: %v", err)
		}
		if got := one[string](t, tx, long+" AS x"); len(got) != 1_000_000 {
			t.Errorf("%d bytes", len(got))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if got := one[int](t, db, "SELECT count(*) FROM t"); got != 1 {
		t.Errorf("%d rows landed", got)
	}
}

// TestNilBlob: a nil []byte is NULL, and an empty one isn't.
func TestNilBlob(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	for _, c := range []struct {
		v    any
		want string
	}{{[]byte(nil), "null"}, {[]byte{}, "blob"}, {sql.RawBytes(nil), "null"}, {sql.Null[[]byte]{Valid: true}, "null"}, {sql.Null[[]byte]{}, "null"}, {"", "text"}} {
		if got := one[string](t, db, "SELECT typeof(?)", c.v); got != c.want {
			t.Errorf("%#v is stored as %s, want %s", c.v, got, c.want)
		}
		exec(t, db, "CREATE TABLE t(v)")
		exec(t, db, "INSERT INTO t VALUES(?)", c.v)
		if got := one[string](t, db, "SELECT typeof(v) FROM t"); got != c.want {
			t.Errorf("%#v is inserted as %s, want %s", c.v, got, c.want)
		}
		exec(t, db, "DROP TABLE t")
	}
}

// TestValuesAsTheDriver: a pool returns the values, and the types, that go-sqlite3's driver
// returns.
func TestValuesAsTheDriver(t *testing.T) {
	r := newRig(t, batch.Limits{})
	ours := oneConn(t, r.open(t, nil))
	plain, err := sqlitedriver.Open("file:/values?vfs=memdb")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	theirs, err := plain.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	values := []any{
		nil, int64(0), int64(1), int64(-1), int64(1735689600), 0.0, 0.5, 2460000.5, "", "x", "1", "0.5", "a\x00b", "a\xffb", []byte{}, []byte("blob"), []byte("2025-06-01T12:00:00Z"),
		"2025-06-01", "12:00", "2025-06-01 12:00:00", "2025-06-01T12:00:00Z", "2025-06-01T12:00:00.5+05:45", "2025-06-01T12:00:00.50Z", "2025-06-01T12:00:00+00:00", "2025-13-01T12:00:00Z",
		time.Date(2025, 6, 1, 12, 0, 0, 123456789, time.FixedZone("", 20700)), time.Time{}, true, false,
	}
	for _, decl := range []string{"", "ANY", "INT", "integer", "REAL", "text", "BLOB", "BOOLEAN", "date", "TIME", "DATETIME", "timestamp", "TIMESTAMPTZ", "VARCHAR(10)", "INTEGER(4)", "DATETIME NOT NULL DEFAULT 0", "INTEGER PRIMARY KEY"} {
		for _, c := range []*sql.Conn{ours, theirs} {
			exec(t, c, "DROP TABLE IF EXISTS t")
			exec(t, c, "CREATE TABLE t(v "+decl+")")
		}
		for _, v := range values {
			var got, want []string
			for c, to := range map[*sql.Conn]*[]string{ours: &got, theirs: &want} {
				_, err := c.ExecContext(t.Context(), "INSERT INTO t VALUES(?)", v)
				*to = append(*to, fmt.Sprint(err))
				rows, err := c.QueryContext(t.Context(), "SELECT v, v AS w, max(v), v + 1 FROM t GROUP BY v")
				if err != nil {
					t.Fatal(err)
				}
				types := func() {
					columns, err := rows.ColumnTypes()
					if err != nil {
						t.Fatal(err)
					}
					for _, column := range columns {
						nullable, known := column.Nullable()
						*to = append(*to, fmt.Sprint(column.Name(), column.DatabaseTypeName(), nullable, known, column.ScanType()))
					}
				}
				types()
				for rows.Next() {
					row := make([]any, 4)
					if err := rows.Scan(&row[0], &row[1], &row[2], &row[3]); err != nil {
						t.Fatal(err)
					}
					types()
					*to = append(*to, fmt.Sprintf("%#v", row))
				}
				*to = append(*to, fmt.Sprint(rows.Err()))
				rows.Close()
				exec(t, c, "DELETE FROM t")
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%#v in a column %q:\n%q, go-sqlite3's driver:\n%q", v, decl, got, want)
			}
		}
	}
}

// TestKeysOff: an Update that wants foreign keys off, where SQLite keeps them on, is rolled
// back, and one that defers them isn't.
func TestKeysOff(t *testing.T) {
	anew := "CREATE TABLE new(id INTEGER PRIMARY KEY, a, b); INSERT INTO new(id, a) SELECT id, a FROM parent; DROP TABLE parent; ALTER TABLE new RENAME TO parent"
	for _, c := range []struct {
		pragmas string
		options []string
		refused bool
	}{
		{"PRAGMA foreign_keys=OFF", nil, true},
		{"pragma Foreign_Keys(no); PRAGMA foreign_keys=ON", nil, true},
		{"PRAGMA main.foreign_keys = 0", nil, true},
		{"PRAGMA foreign_keys=FALSE; PRAGMA defer_foreign_keys=off", nil, true},
		{"PRAGMA foreign_keys=OFF; PRAGMA defer_foreign_keys=ON", nil, false},
		{"PRAGMA defer_foreign_keys=1; PRAGMA foreign_keys=OFF", nil, false},
		{"PRAGMA foreign_keys", nil, false},
		{"PRAGMA foreign_keys=ON", nil, false},
		{"PRAGMA foreign_keys=OFF", []string{"foreign_keys=OFF"}, false},
	} {
		r := newRig(t, batch.Limits{})
		db := r.open(t, &vfs.Options{Pragmas: c.options})
		exec(t, db, "CREATE TABLE parent(id INTEGER PRIMARY KEY, a); CREATE TABLE child(p REFERENCES parent ON DELETE CASCADE); INSERT INTO parent VALUES(1, 'a'); INSERT INTO child VALUES(1)")
		err := db.Update(t.Context(), func(tx *vfs.Tx) error {
			exec(t, tx, c.pragmas)
			exec(t, tx, anew)
			return nil
		})
		if refused := errors.Is(err, vfs.ErrUnsupported); refused != c.refused || err != nil && !refused {
			t.Errorf("%s: %v", c.pragmas, err)
		}
		if columns := one[int](t, db, "SELECT count(*) FROM pragma_table_info('parent')"); (columns == 2) != c.refused {
			t.Errorf("%s: parent has %d columns", c.pragmas, columns)
		}
		if c.refused && one[int](t, db, "SELECT count(*) FROM child") != 1 {
			t.Errorf("%s: the child has gone", c.pragmas)
		}
	}
}

// TestGivenBack: the pool doesn't use a connection again that was given back in a
// transaction, or with foreign keys off.
func TestGivenBack(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{MaxConns: 1})
	exec(t, db, "CREATE TABLE parent(id INTEGER PRIMARY KEY); CREATE TABLE child(p REFERENCES parent)")
	c := oneConn(t, db)
	exec(t, c, "PRAGMA foreign_keys=OFF")
	exec(t, c, "INSERT INTO child VALUES(1)")
	c.Close()
	if _, err := db.ExecContext(t.Context(), "INSERT INTO child VALUES(2)"); !errors.Is(err, sqlite3.CONSTRAINT_FOREIGNKEY) {
		t.Errorf("a child without a parent: %v", err)
	}
	exec(t, db, "BEGIN IMMEDIATE; INSERT INTO parent VALUES(2)")
	if got := one[int](t, db, "SELECT count(*) FROM parent"); got != 0 {
		t.Errorf("%d rows of a transaction that was left", got)
	}
	if err := db.Update(t.Context(), func(tx *vfs.Tx) error { exec(t, tx, "INSERT INTO parent VALUES(3)"); return nil }); err != nil {
		t.Error(err)
	}
}

// TestKeysOffLeavesNothing: what an Update wanted of foreign keys is forgotten when it is over,
// and a connection may be lost on the way.
func TestKeysOffLeavesNothing(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{MaxConns: 1})
	exec(t, db, "CREATE TABLE t(v)")
	off := func(then string) error {
		return db.Update(t.Context(), func(tx *vfs.Tx) error {
			exec(t, tx, "PRAGMA foreign_keys=OFF")
			_, _ = tx.ExecContext(t.Context(), then)
			return nil
		})
	}
	if err := off("SELECT 1"); !errors.Is(err, vfs.ErrUnsupported) {
		t.Errorf("keys off: %v", err)
	}
	c := oneConn(t, db)
	exec(t, c, "BEGIN IMMEDIATE")
	exec(t, c, "INSERT INTO t VALUES(1)")
	exec(t, c, "COMMIT")
	c.Close()
	if err := off("SELECT " + strings.Repeat("NOT ", 900) + "1"); !errors.Is(err, vfs.ErrTxOver) {
		t.Errorf("keys off, and the connection lost: %v", err)
	}
	if got := one[int](t, db, "SELECT count(*) FROM t"); got != 1 {
		t.Errorf("%d rows", got)
	}
}

// TestRowsAfterTheEnd: rows that were left open answer no more when their Update is over, and
// do the connection no harm.
func TestRowsAfterTheEnd(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{MaxConns: 1})
	if err := db.Update(t.Context(), func(tx *vfs.Tx) error {
		open, err := tx.QueryContext(t.Context(), "SELECT 1 AS x UNION SELECT 2")
		if err != nil {
			return err
		}
		defer open.Close()
		left := vfs.EndRows(tx)
		left.ColumnTypeScanType(0)
		left.ColumnTypeDatabaseTypeName(0)
		left.ColumnTypeNullable(0)
		if err := left.Next(nil); !errors.Is(err, vfs.ErrTxOver) {
			t.Errorf("a row after the end: %v", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
