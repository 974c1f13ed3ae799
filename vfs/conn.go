package vfs

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"
	sqlitedriver "github.com/ncruces/go-sqlite3/driver"
)

// The connections of a pool are those of go-sqlite3's driver, which ask before every
// statement whether the actor is still this process's. Within a transaction SQLite
// answers from its own page cache without asking the VFS; a process that was replaced
// would not notice before it needs a page, or commits.

// refusal returns why no statement may run, nil if it may.
func (db *database) refusal(ctx context.Context) error {
	err := db.owned(ctx)
	if err != nil {
		cause := err
		db.cause.Store(&cause)
	}
	return err
}

// A connector makes the connections of a pool.
type connector struct {
	driver.Connector
	db      *database
	prepare func(*sqlite3.Conn) error
}

// newConnector returns the connector for dsn, which leads to db.
func newConnector(dsn string, db *database, prepare func(*sqlite3.Conn) error) (*connector, error) {
	base, err := new(sqlitedriver.SQLite).OpenConnector(dsn)
	if err != nil {
		return nil, err
	}
	return &connector{base, db, prepare}, nil
}

// A driverConn is what go-sqlite3's connections are to database/sql.
type driverConn interface {
	sqlitedriver.Conn
	driver.ExecerContext
	driver.NamedValueChecker
}

// Connect is driver.Connector's.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	base, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	dc, ok := base.(driverConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%w: go-sqlite3's connections are not what they were", ErrUnsupported), base.Close())
	}
	conn := &conn{driverConn: dc, db: c.db}
	if err := conn.setUp(ctx, c.prepare); err != nil {
		return nil, errors.Join(err, dc.Close())
	}
	return conn, nil
}

// A conn is one connection of a pool.
type conn struct {
	driverConn
	db        *database
	queryOnly bool // by a PRAGMA of the options
}

// setUp runs prepare, which ctx interrupts.
func (c *conn) setUp(ctx context.Context, prepare func(*sqlite3.Conn) error) error {
	raw := c.Raw()
	defer raw.SetInterrupt(raw.SetInterrupt(ctx))
	if err := prepare(raw); err != nil {
		return err
	}
	s, _, err := raw.Prepare("PRAGMA query_only")
	if err != nil {
		return err
	}
	c.queryOnly = s.Step() && s.ColumnBool(0)
	return s.Close()
}

// PrepareContext is driver.ConnPrepareContext's.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := c.db.refusal(ctx); err != nil {
		return nil, err
	}
	s, err := c.driverConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	ds, ok := s.(driverStmt)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%w: go-sqlite3's statements are not what they were", ErrUnsupported), s.Close())
	}
	return &stmt{ds, c.db}, nil
}

// ExecContext is driver.ExecerContext's. A transaction can be rolled back in any case.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.db.refusal(ctx); err != nil && !strings.EqualFold(strings.TrimSpace(query), "rollback") {
		return nil, err
	}
	return c.driverConn.ExecContext(ctx, query, args)
}

// BeginTx is driver.ConnBeginTx's.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if err := c.db.refusal(ctx); err != nil {
		return nil, err
	}
	tx, err := c.driverConn.BeginTx(ctx, opts)
	if err == nil && opts.ReadOnly && c.queryOnly {
		tx = queryOnlyTx{tx, c.Raw()} // the driver ends it by turning query_only off
	}
	return tx, err
}

// A queryOnlyTx is a read-only transaction of a connection that only reads anyway.
type queryOnlyTx struct {
	driver.Tx
	raw *sqlite3.Conn
}

// Commit is driver.Tx's.
func (t queryOnlyTx) Commit() error {
	return errors.Join(t.Tx.Commit(), t.raw.Exec("PRAGMA query_only=on"))
}

// Rollback is driver.Tx's.
func (t queryOnlyTx) Rollback() error {
	return errors.Join(t.Tx.Rollback(), t.raw.Exec("PRAGMA query_only=on"))
}

// A driverStmt is what go-sqlite3's statements are to database/sql.
type driverStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
	driver.NamedValueChecker
}

// A stmt is a prepared statement of a pool.
type stmt struct {
	driverStmt
	db *database
}

// ExecContext is driver.StmtExecContext's.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.db.refusal(ctx); err != nil {
		return nil, err
	}
	return s.driverStmt.ExecContext(ctx, args)
}

// QueryContext is driver.StmtQueryContext's.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.db.refusal(ctx); err != nil {
		return nil, err
	}
	return s.driverStmt.QueryContext(ctx, args)
}
