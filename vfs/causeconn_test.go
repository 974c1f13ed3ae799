package vfs_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"reflect"
	"testing"

	sqlitedriver "github.com/ncruces/go-sqlite3/driver"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestDriverInterfaces: what go-sqlite3's connections, statements and rows can do
// beyond what they must, those of a pool can, too.
func TestDriverInterfaces(t *testing.T) {
	r := newRig(t, batch.Limits{})
	c := oneConn(t, r.open(t, nil))
	exec(t, c, "create table t(a integer not null, b varchar(10), c datetime)")
	same := func(what string, ours, theirs any, optional ...reflect.Type) {
		t.Helper()
		for _, i := range optional {
			if reflect.TypeOf(theirs).Implements(i) && !reflect.TypeOf(ours).Implements(i) {
				t.Errorf("%s: %v got lost", what, i)
			}
		}
	}
	ofConns := []reflect.Type{
		reflect.TypeFor[sqlitedriver.Conn](),
		reflect.TypeFor[driver.Pinger](), reflect.TypeFor[driver.ExecerContext](), reflect.TypeFor[driver.QueryerContext](),
		reflect.TypeFor[driver.ConnPrepareContext](), reflect.TypeFor[driver.ConnBeginTx](), reflect.TypeFor[driver.SessionResetter](),
		reflect.TypeFor[driver.Validator](), reflect.TypeFor[driver.NamedValueChecker](),
	}
	ofStmts := []reflect.Type{
		//lint:ignore SA1019 go-sqlite3's statements have it, so that ours must too
		reflect.TypeFor[driver.ColumnConverter](), reflect.TypeFor[driver.NamedValueChecker](),
		reflect.TypeFor[driver.StmtExecContext](), reflect.TypeFor[driver.StmtQueryContext](),
	}
	ofRows := []reflect.Type{
		reflect.TypeFor[driver.RowsNextResultSet](), reflect.TypeFor[driver.RowsColumnTypeScanType](), reflect.TypeFor[driver.RowsColumnTypeDatabaseTypeName](),
		reflect.TypeFor[driver.RowsColumnTypeNullable](), reflect.TypeFor[driver.RowsColumnTypeLength](),
		reflect.TypeFor[driver.RowsColumnTypePrecisionScale](),
	}
	if err := c.Raw(func(dc any) error {
		ours := dc.(*vfs.Conn)
		same("connection", ours, vfs.Layers(ours), ofConns...)
		s, err := ours.PrepareContext(t.Context(), "select * from t")
		if err != nil {
			return err
		}
		same("statement", s, vfs.Layers(s), ofStmts...)
		rs, err := s.(driver.StmtQueryContext).QueryContext(t.Context(), nil)
		if err != nil {
			return err
		}
		same("rows", rs, vfs.Layers(rs), ofRows...)
		return errors.Join(rs.Close(), s.Close())
	}); err != nil {
		t.Error(err)
	}
	rows, err := c.QueryContext(t.Context(), "select * from t")
	if err != nil {
		t.Fatal(err)
	}
	types, err := rows.ColumnTypes()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range types {
		nullable, known := c.Nullable()
		got = append(got, c.DatabaseTypeName(), c.ScanType().String(), map[bool]string{true: "?", false: "!"}[nullable || !known])
	}
	if want := []string{"INTEGER", "int64", "!", "VARCHAR", "interface {}", "?", "DATETIME", "time.Time", "!"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the columns are %q, want %q", got, want)
	}
	if err := rows.Close(); err != nil {
		t.Error(err)
	}
}

// TestTwoQueriesOfOneStatement: rows of one don't become those of the other.
func TestTwoQueriesOfOneStatement(t *testing.T) {
	r := newRig(t, batch.Limits{})
	c := oneConn(t, r.open(t, nil))
	stmt, err := c.PrepareContext(t.Context(), "select value from generate_series(1, 3)")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		n, sum := 0, 0
		rows, err := stmt.QueryContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			if err := rows.Scan(&n); err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil || sum != 6 {
			t.Errorf("%d, %v", sum, err)
		}
	}
	if err := stmt.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Raw(func(dc any) error {
		s, err := dc.(*vfs.Conn).PrepareContext(t.Context(), "select 1")
		if err != nil {
			return err
		}
		q := s.(driver.StmtQueryContext)
		a, err := q.QueryContext(t.Context(), nil)
		if err != nil {
			return err
		}
		b, err := q.QueryContext(t.Context(), nil)
		if err != nil || a == b {
			t.Errorf("two queries have the same rows, %v", err)
		}
		return errors.Join(a.Close(), b.Close(), s.Close())
	}); err != nil {
		t.Error(err)
	}
}

// TestCauseAllocs: a pool that knows the reasons of errors allocates no more, where
// there are none, than go-sqlite3's driver by itself.
func TestCauseAllocs(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	r := newRig(t, batch.Limits{})
	ours := r.open(t, &vfs.Options{MaxConns: 1})
	exec(t, ours, "create table t(a integer primary key, b); insert into t values (1, 1)")
	theirs, err := sql.Open("sqlite3", ours.DSN())
	if err != nil {
		t.Fatal(err)
	}
	theirs.SetMaxOpenConns(1)
	ctx := context.Background() // one that can end has database/sql start goroutines, which allocate as they like
	measure := func(db *sql.DB) (query, prepared, tx float64) {
		stmt, err := db.PrepareContext(ctx, "select b from t where a = 1")
		if err != nil {
			t.Fatal(err)
		}
		v := 0
		query = testkit.FewestAllocs(func() {
			if err := db.QueryRowContext(ctx, "select b from t where a = 1").Scan(&v); err != nil {
				t.Fatal(err)
			}
		})
		prepared = testkit.FewestAllocs(func() {
			if err := stmt.QueryRowContext(ctx).Scan(&v); err != nil {
				t.Fatal(err)
			}
		})
		if err := stmt.Close(); err != nil {
			t.Fatal(err)
		}
		tx = testkit.FewestAllocs(func() {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
			if err == nil {
				err = tx.Commit()
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		return query, prepared, tx
	}
	q, p, x := measure(ours.DB)
	qBase, pBase, xBase := measure(theirs)
	t.Logf("query %v and %v, prepared %v and %v, transaction %v and %v", q, qBase, p, pBase, x, xBase)
	// What a statement is wrapped in is one allocation, made when it is prepared.
	if q > qBase+1 || p > pBase || x > xBase {
		t.Errorf("query %v, prepared %v, transaction %v; without the reasons %v, %v, %v", q, p, x, qBase, pBase, xBase)
	}
	if err := theirs.Close(); err != nil {
		t.Error(err)
	}
}

// TestRawConn: a program that has the pool alone learns from a connection what the DB says.
func TestRawConn(t *testing.T) {
	r := newRig(t, batch.Limits{Storage: 64 << 10})
	db := r.open(t, nil)
	c := oneConn(t, db)
	exec(t, c, "create table t(a)")
	if _, err := c.ExecContext(t.Context(), "insert into t values (zeroblob(100000))"); err == nil {
		t.Fatal("it fits")
	}
	err := c.Raw(func(raw any) error {
		below := raw.(interface {
			Cause() error
			DSN() string
		})
		if err := below.Cause(); !errors.Is(err, actorstore.ErrQuota) || err != db.Cause() || below.DSN() != db.DSN() {
			t.Errorf("%v, %s; the DB says %v, %s", err, below.DSN(), db.Cause(), db.DSN())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
