package vfs_test

import (
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestRowsRead: rows that are returned count, and those that are looked at in vain in a full scan.
func TestRowsRead(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db.DB, "CREATE TABLE t(i INTEGER PRIMARY KEY, v); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) INSERT INTO t SELECT i, i FROM n")
	stmt, err := db.PrepareContext(t.Context(), "SELECT v FROM t WHERE v > ?")
	if err != nil {
		t.Fatal(err)
	}
	rows := func(query func() error) int64 {
		before := r.Actor.Rows()
		if err := query(); err != nil {
			t.Error(err)
		}
		return r.Actor.Rows() - before
	}
	for _, test := range []struct {
		what  string
		query func() error
		want  int64
	}{
		{"all", func() error { return count(db, "SELECT v FROM t") }, 100},
		{"some of them", func() error { return count(db, "SELECT v FROM t LIMIT 7") }, 7},
		{"a scan for one", func() error { return count(db, "SELECT v FROM t WHERE v = ?", 3) }, 100},
		{"by the key", func() error { return count(db, "SELECT v FROM t WHERE i = ?", 3) }, 1},
		{"a sum", func() error { return count(db, "SELECT sum(v) FROM t") }, 100},
		{"nothing", func() error { return count(db, "SELECT v FROM t WHERE i = ?", 300) }, 0},
		{"a join", func() error { return count(db, "SELECT 1 FROM t AS a CROSS JOIN t AS b ON a.v + b.v = 2") }, 10_000},
		{"an update of one", func() error { return testkit.Second(db.Exec("UPDATE t SET v = 5 WHERE v = ?", 5)) }, 100},
		{"an update without arguments", func() error { return testkit.Second(db.Exec("UPDATE t SET v = 5 WHERE v = 5")) }, 100},
		{"several statements", func() error {
			return testkit.Second(db.Exec("DELETE FROM t WHERE v = 1000; DELETE FROM t WHERE v = 1001"))
		}, 200},
		{"values", func() error { return count(db, "VALUES (1), (2)") }, 2},
		{"a prepared statement", func() error {
			for range 3 {
				rows, err := stmt.QueryContext(t.Context(), 1000)
				if err != nil {
					return err
				}
				for rows.Next() {
				}
				if err := rows.Close(); err != nil {
					return err
				}
			}
			return nil
		}, 300},
	} {
		if got := rows(test.query); got != test.want {
			t.Errorf("%s: %d rows, want %d", test.what, got, test.want)
		}
	}
	if err := stmt.Close(); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// count reads all rows of a query.
func count(db *vfs.DB, query string, args ...any) error {
	rows, err := db.Query(query, args...)
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return rows.Close()
}
