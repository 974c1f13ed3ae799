package sqlitesuite

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ncruces/go-sqlite3/internal/sqlite3_wrap"
	"github.com/ncruces/go-sqlite3/vfs/memdb"
)

// speedtestSize is speedtest1's measure of work, in percent.
const speedtestSize = "25"

// runSpeedtest runs speedtest1 on a target that nothing has touched yet. What it
// leaves behind depends on its arguments alone.
func runSpeedtest(t *testing.T, x target, options ...string) {
	m := &machine{main: func(w *sqlite3_wrap.Wrapper, argc, argv int32) int32 { return w.Xmain_speedtest1(argc, argv) }}
	args := append([]string{"speedtest1", "--vfs", x.vfs, "--size", speedtestSize}, options...)
	lines, status := m.run(t, fstest.MapFS{}, append(args, x.db)...)
	if status != 0 || len(lines) == 0 || !strings.Contains(lines[len(lines)-1], "TOTAL") {
		t.Errorf("speedtest1 exited with status %d", status)
		for _, line := range lines {
			t.Log(line)
		}
		return
	}
	checkIntegrity(t, x.dsn())
	x.check(t)
}

// dump returns, for each table of a database, its definition and a hash of its
// rows in their order.
func dump(t *testing.T, dsn string) map[string]string {
	t.Helper()
	db, err := sql.Open("sqlite3", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tables := map[string]string{}
	for _, row := range query(t, db, "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL") {
		tables[row[0]] = row[1]
	}
	for name, def := range tables {
		if !strings.HasPrefix(def, "CREATE TABLE") && !strings.HasPrefix(def, "CREATE VIRTUAL TABLE") {
			continue
		}
		h := sha256.New()
		rows := query(t, db, fmt.Sprintf("SELECT * FROM %q", name))
		for _, row := range rows {
			fmt.Fprintf(h, "%q\n", row)
		}
		tables[name] += fmt.Sprintf(" -- %d rows %x", len(rows), h.Sum(nil))
	}
	return tables
}

// query returns the rows of a query as text.
func query(t *testing.T, db *sql.DB, text string) [][]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for rows.Next() {
		row, dest := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range row {
			dest[i] = &row[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		texts := make([]string, len(row))
		for i, v := range row {
			texts[i] = v.String
			if !v.Valid {
				texts[i] = "NULL"
			}
		}
		all = append(all, texts)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return all
}

// sameContent fails unless two databases hold the same tables and rows.
func sameContent(t *testing.T, got, want map[string]string) {
	t.Helper()
	full := func(s string) bool { return strings.Contains(s, " rows ") && !strings.Contains(s, "-- 0 rows ") }
	if !slices.ContainsFunc(slices.Collect(maps.Values(want)), full) {
		t.Errorf("no rows to compare in %v", want)
	}
	if !maps.Equal(got, want) {
		t.Errorf("content differs:\ngot  %v\nwant %v", got, want)
	}
}

// memoryTarget is a database of memdb.
func memoryTarget(t *testing.T) target {
	name := fmt.Sprintf("speedtest-%d.db", names.Add(1))
	memdb.Create(name, nil)
	t.Cleanup(func() { memdb.Delete(name) })
	return target{vfs: "memdb", db: "/" + name, check: func(*testing.T) {}}
}

// TestSpeedtestFile runs speedtest1 over go-sqlite3's file VFS, twice, to see
// that its outcome can be compared.
func TestSpeedtestFile(t *testing.T) {
	a, b := fileTarget(t), fileTarget(t)
	runSpeedtest(t, a)
	runSpeedtest(t, b, "--journal", "truncate")
	if !t.Failed() {
		sameContent(t, dump(t, a.dsn()), dump(t, b.dsn()))
	}
}
