package vfs_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
)

// TestNamedArguments: each parameter that has a name needs an argument, by its name or its number, and arguments without a parameter are ignored.
func TestNamedArguments(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	a, b := sql.Named("a", 1), sql.Named("b", 2)
	for _, c := range []struct {
		query   string
		args    []any
		want    int
		missing string
	}{
		{"select :a + 10 * @b", []any{a, b}, 21, ""},
		{"select $a + 10 * :a", []any{a}, 11, ""},
		{"select :a + 10 * :b", []any{b, a, sql.Named("c", 3)}, 21, ""},
		{"select :a + 10 * :b", []any{1, 2}, 21, ""},
		{"select :a + 10 * ?", []any{a, 2}, 21, ""},
		{"select ?1 + 10 * ?3", []any{1, 5, 2}, 21, ""},
		{"select :a is null", []any{sql.Named("a", nil)}, 1, ""},
		{"select :a + :b", []any{a}, 0, ":b"},
		{"select :a + @b", []any{a, sql.Named("B", 2)}, 0, "@b"},
		{"select :a + :b", []any{1}, 0, ":b"},
		{"select $a", nil, 0, "$a"},
		{"select ?1 + ?3", []any{1, 5}, 0, "?3"},
	} {
		var got int
		err := db.QueryRowContext(t.Context(), c.query, c.args...).Scan(&got)
		if c.missing == "" && (err != nil || got != c.want) {
			t.Errorf("%s of %v: %d, %v", c.query, c.args, got, err)
		}
		if c.missing != "" && (err == nil || !strings.Contains(err.Error(), "the parameter "+c.missing+" has no argument")) {
			t.Errorf("%s of %v: %v", c.query, c.args, err)
		}
	}
	exec(t, db, "create table t(x, y)")
	if _, err := db.ExecContext(t.Context(), "insert into t values(:x, :y)", sql.Named("x", 1), sql.Named("z", 2)); err == nil {
		t.Error("a row with a value that wasn't given is inserted")
	}
	for _, query := range []string{"insert into t values(:x, :y)", "insert into t values(?1, ?2)", "insert into t values(?, ?)", "delete from t; insert into t values(1, @x)"} {
		if _, err := db.ExecContext(t.Context(), query); err == nil {
			t.Errorf("%s is executed without arguments", query)
		}
	}
	if n := one[int](t, db, "select count(*) from t"); n != 0 {
		t.Errorf("there are %d rows", n)
	}
}
