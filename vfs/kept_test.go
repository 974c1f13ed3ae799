package vfs_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs"
)

// openStatements returns the texts of the statements that are open on a connection, in order.
func openStatements(t *testing.T, c *sql.Conn) (texts []string) {
	t.Helper()
	if err := c.Raw(func(dc any) error {
		for s := range dc.(*vfs.Conn).Raw().Stmts() {
			texts = append(texts, s.SQL())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(texts)
	return texts
}

// TestKept: a connection compiles a statement that reads or changes rows once, and others every time.
func TestKept(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	c := oneConn(t, db)
	exec(t, c, "CREATE TABLE t(x, y)")
	const (
		insert, changed = "INSERT INTO t(x) VALUES(?)", "UPDATE t SET y = ? WHERE x = ?"
		most, returning = "SELECT max(x) FROM t WHERE x <= ?", "\n\tINSERT INTO t VALUES(?, 1) RETURNING x"
	)
	for i := range 3 {
		exec(t, c, insert, i)
		exec(t, c, changed, "y", i)
		one[int](t, c, most, i)
		one[int](t, c, returning, i)
		exec(t, c, "PRAGMA cache_size = 100")
		exec(t, c, "DELETE FROM t WHERE x = ? /* "+strings.Repeat("long", vfs.MaxKeptText/4)+" */", -1)
	}
	if got, want := openStatements(t, c), []string{returning, insert, most, changed}; !slices.Equal(got, want) {
		t.Errorf("kept are %q, want %q", got, want)
	}
	// What was bound once is nothing to the next one.
	const named = "INSERT INTO t VALUES(:x, :y)"
	exec(t, c, named, sql.Named("x", "both"), sql.Named("y", 1))
	if _, err := c.ExecContext(t.Context(), named, sql.Named("x", "one")); err == nil {
		t.Error("an argument that is missing is the one of before")
	}
	// The schema may change in between.
	exec(t, c, "DROP TABLE t")
	if _, err := c.ExecContext(t.Context(), insert, 1); err == nil {
		t.Error("an INSERT into a table that was dropped is executed")
	}
	exec(t, c, "CREATE TABLE t(y DEFAULT 'new', x)")
	exec(t, c, insert, 7)
	if got := one[int](t, c, most, 9); got != 7 {
		t.Errorf("the greatest is %d, want 7", got)
	}
	if got := one[string](t, c, "SELECT y || x FROM t"); got != "new7" {
		t.Errorf("the row is %q, want new7", got)
	}
	for i := range 2 * vfs.MaxKept {
		exec(t, c, fmt.Sprintf("UPDATE t SET x = ? + %d", i), 1)
	}
	if got := openStatements(t, c); len(got) != vfs.MaxKept {
		t.Errorf("%d statements are kept, want %d", len(got), vfs.MaxKept)
	}
}

// TestKeptByUpdate: an Update compiles nothing the second time, but what it wants compiled anew, which isn't kept.
func TestKeptByUpdate(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, "CREATE TABLE t(x)")
	for range 2 {
		if err := db.Update(t.Context(), func(tx *vfs.Tx) error {
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES(?)", 1); err != nil {
				return err
			}
			s, err := tx.PrepareAnew(t.Context(), "DELETE FROM t")
			if err != nil {
				return err
			}
			var n int
			return errors.Join(s.Close(), tx.QueryRowContext(t.Context(), "SELECT max(x) FROM t").Scan(&n))
		}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"BEGIN IMMEDIATE", "COMMIT", "INSERT INTO t VALUES(?)", "SELECT max(x) FROM t"}
	if got := openStatements(t, oneConn(t, db)); !slices.Equal(got, want) {
		t.Errorf("kept are %q, want %q", got, want)
	}
}

// TestKeptTwice: of two statements of one text, both in use, each is the user's own.
func TestKeptTwice(t *testing.T) {
	r := newRig(t, batch.Limits{})
	c := oneConn(t, r.open(t, nil))
	exec(t, c, "CREATE TABLE t(x)")
	const insert = "INSERT INTO t VALUES(?)"
	exec(t, c, insert, 1)
	a, err := c.PrepareContext(t.Context(), insert)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.PrepareContext(t.Context(), insert)
	if err != nil {
		t.Fatal(err)
	}
	if got := openStatements(t, c); len(got) != 2 {
		t.Errorf("two statements are %q", got)
	}
	for _, s := range []*sql.Stmt{a, b, a} {
		if _, err := s.ExecContext(t.Context(), 2); err != nil {
			t.Error(err)
		}
	}
	for _, s := range []*sql.Stmt{a, a, b} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := one[int](t, c, "SELECT sum(x) FROM t"); n != 7 {
		t.Errorf("the sum is %d, want 7", n)
	}
}
