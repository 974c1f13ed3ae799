package vfs

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"
	sqlitedriver "github.com/ncruces/go-sqlite3/driver"
	"github.com/ncruces/go-sqlite3/ext/fts5"
	"github.com/ncruces/go-sqlite3/ext/rtree"

	"github.com/greenroomdb/greenroom/internal/sqliteguard"
)

// The connections of a pool are those of go-sqlite3's driver, which ask before every
// statement whether the actor is still this process's. Within a transaction SQLite
// answers from its own page cache without asking the VFS; a process that was replaced
// would not notice before it needs a page, or commits.

// A connector makes the connections of a pool.
type connector struct {
	driver.Connector
	db  *database
	vfs *VFS
	dsn string
	idling
}

// newConnector returns the connector for dsn, which leads to db in v.
func newConnector(dsn string, db *database, v *VFS) (*connector, error) {
	base, err := new(sqlitedriver.SQLite).OpenConnector(dsn)
	if err != nil {
		return nil, err
	}
	return &connector{Connector: base, db: db, vfs: v, dsn: dsn, idling: idling{after: v.opts.MaxIdleTime}}, nil
}

// A driverConn is what go-sqlite3's connections are to database/sql.
type driverConn interface {
	sqlitedriver.Conn
	driver.ExecerContext
	driver.NamedValueChecker
}

// Connect is driver.Connector's.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn := &conn{db: c.db, pool: c, temp: c.vfs.temp}
	if err := conn.connect(ctx); err != nil {
		return nil, err
	}
	return conn, nil
}

// A conn is one connection of a pool. What it returns that is SQLite's has the reason
// behind it (explain).
type conn struct {
	driverConn
	db        *database
	pool      *connector
	file      *handle // nil if a VFS on top hides it
	told      *toldMemory
	temp      *tempRoom
	tx        connTx
	kept      kept
	anew      bool // statements that are prepared now are compiled, and aren't kept
	open      []openRows
	queryOnly bool        // by a PRAGMA of the options
	keys      bool        // foreign keys are enforced, by SQLite's default or a PRAGMA of the options
	spent     atomic.Bool // it isn't used again
	lost      *lostError  // nothing runs on it any more, see lost.go; nil if it was not lost
	left      atomic.Bool // by runtime.Goexit, which may have kept locks of database/sql
	shown     atomic.Bool // a program was given what is below it
	since     time.Time   // when it came back to its pool  +checklocks:pool.mu
	gone      bool        // what is below it was closed, since it was idle; see idle.go  +checklocks:pool.mu
	connected int         // how often it was connected

	tempRefused int64 // of temp, when the statement began
}

// Cause and DSN are those of the DB, for a program that has its *sql.DB alone: the function of
// sql.Conn.Raw gets a value with these two methods, Lose, and Raw.
func (c *conn) Cause() error { return c.db.lastCause() }

// DSN says how to open more connections.
func (c *conn) DSN() string { return c.pool.dsn }

// Raw returns what is below the connection, for a function of sql.Conn.Raw. The connection stays open from now on, however long
// it is idle: what the program does with it isn't seen.
func (c *conn) Raw() *sqlite3.Conn {
	c.shown.Store(true)
	return c.raw()
}

// connect opens what is below c.
func (c *conn) connect(ctx context.Context) (err error) {
	if err := c.db.refusal(ctx); err != nil {
		return err
	}
	c.told, c.tx = new(toldMemory), connTx{conn: c}
	err = errLeft
	defer c.guard(&err)
	base, err := c.pool.Connector.Connect(ctx)
	if err != nil {
		return err
	}
	dc, ok := base.(driverConn)
	if !ok {
		return errors.Join(fmt.Errorf("%w: go-sqlite3's connections are not what they were", ErrUnsupported), base.Close())
	}
	c.driverConn = dc
	if c.file = fileOf(dc.Raw(), "main"); c.file != nil {
		c.file.SetDB(dc.Raw()) // a VFS on top may not have said so
		c.told = c.file.told
	}
	if err := c.setUp(ctx, c.pool.vfs.opts.prepare); err != nil {
		return errors.Join(c.explain(ctx, err), dc.Close())
	}
	c.connected++
	return nil
}

// setUp runs prepare, which ctx interrupts.
func (c *conn) setUp(ctx context.Context, prepare func(*sqlite3.Conn) error) error {
	raw := c.raw()
	defer raw.SetInterrupt(raw.SetInterrupt(ctx))
	if err := prepare(raw); err != nil {
		return err
	}
	s, _, err := raw.Prepare("PRAGMA query_only")
	if err != nil {
		return err
	}
	c.queryOnly = s.Step() && s.ColumnBool(0)
	if err := s.Close(); err != nil {
		return err
	}
	if c.file != nil { // the PRAGMA before this is the last that isn't its user's
		c.file.set, c.file.queryOnly = !c.file.tells, c.queryOnly
	}
	c.keys, err = raw.Config(sqlite3.DBCONFIG_ENABLE_FKEY)
	return err
}

// builtin are the extensions that each connection has, as in most builds of SQLite.
//
// https://sqlite.org/fts5.html https://sqlite.org/rtree.html
var builtin = []Extension{fullText, rtree.Register}

// fullText registers FTS5. At its end fts5.Register runs a statement to find what tokenizers in
// Go need. That would read the database, for which a key or a rollback may still be missing, so
// it is kept from being compiled; all else is there by then.
func fullText(c *sqlite3.Conn) error {
	defer c.Limit(sqlite3.LIMIT_SQL_LENGTH, c.Limit(sqlite3.LIMIT_SQL_LENGTH, 1))
	if err := fts5.Register(c); !errors.Is(err, sqlite3.TOOBIG) {
		return err
	}
	return nil
}

// prepare sets up a new connection.
func (o *Options) prepare(c *sqlite3.Conn) error {
	all := o.Extensions
	if !o.Plain {
		all = append(slices.Clip(builtin), all...)
	}
	for _, register := range all {
		if err := register(c); err != nil {
			return fmt.Errorf("vfs: extension: %w", err)
		}
	}
	for _, p := range o.Pragmas {
		if err := c.Exec("PRAGMA " + p); err != nil {
			return fmt.Errorf("vfs: PRAGMA %s: %w", p, err)
		}
	}
	return nil
}

// enter begins a statement, unless it may not run.
func (c *conn) enter(ctx context.Context) error {
	err := c.usable()
	if err == nil {
		err = c.db.refusal(ctx)
	}
	if err == nil {
		err = c.makeRoom(ctx)
	}
	if err == nil {
		c.begin()
	}
	return err
}

// makeRoom runs a checkpoint if the log leaves the actor little room, so that the next commit
// begins the log again. The checkpoint goes as far as readers allow, and doesn't wait for them.
// SQLite itself would run it after a commit, for which there may not be room. Its result doesn't
// matter: without it the log stays as it was.
func (c *conn) makeRoom(ctx context.Context) error {
	if !c.db.wal.crowded() || c.queryOnly || !c.raw().GetAutocommit() {
		return nil
	}
	_, _ = call(ctx, c, func() (struct{}, error) {
		raw := c.raw()
		defer raw.SetInterrupt(raw.SetInterrupt(ctx))
		return struct{}{}, raw.Exec("PRAGMA main.wal_checkpoint(PASSIVE)")
	})
	return c.usable()
}

// begin forgets what was seen of the statement before this one.
func (c *conn) begin() {
	c.told.forget()
	c.tempRefused = c.temp.refused.Load()
	if c.file != nil {
		c.file.ended = false
	}
}

// Ping is driver.Pinger's: it says whether a statement would be refused.
func (c *conn) Ping(ctx context.Context) error { return c.enter(ctx) }

// call returns what fn returns, which calls SQLite: an error with the reason behind it, or
// that of a panic. It is a function of its own so that fn stays on the stack.
func call[T any](ctx context.Context, c *conn, fn func() (T, error)) (out T, err error) {
	err = errLeft
	defer c.guard(&err)
	if out, err = fn(); err != nil {
		err = c.explain(ctx, err)
	}
	return out, err
}

// PrepareContext is driver.ConnPrepareContext's.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	if !c.anew {
		if s := c.kept.take(query); s != nil {
			return &stmt{driverStmt: s, conn: c, query: query, of: c.connected}, nil
		}
	}
	ds, err := c.compile(ctx, query)
	if err != nil {
		return nil, err
	}
	if nothing(ds) {
		return emptyStmt{}, nil
	}
	return &stmt{driverStmt: ds, conn: c, query: query, of: c.connected, once: c.anew}, nil
}

// compile makes a statement of SQLite's.
func (c *conn) compile(ctx context.Context, query string) (driverStmt, error) {
	s, err := call(ctx, c, func() (s driver.Stmt, err error) {
		err = sqliteguard.Padded(query, func(text string) (err error) {
			s, err = c.driverConn.PrepareContext(ctx, text)
			return err
		})
		return s, err
	})
	if err != nil {
		return nil, err
	}
	ds, ok := s.(driverStmt)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%w: go-sqlite3's statements are not what they were", ErrUnsupported), s.Close())
	}
	return ds, nil
}

// ExecContext is driver.ExecerContext's. A transaction can be rolled back in any case.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	switch {
	case len(args) > 0:
		return nil, driver.ErrSkip // it is prepared
	case frames(query):
		return execFrame(ctx, c, query)
	}
	if err := c.usable(); err != nil {
		return nil, err
	}
	if err := c.db.refusal(ctx); err != nil && !strings.EqualFold(strings.TrimSpace(query), "rollback") {
		return nil, err
	}
	if err := c.makeRoom(ctx); err != nil {
		return nil, err
	}
	c.begin()
	if query == "" { // go-sqlite3's Savepoint says what it wants by ctx
		return call(ctx, c, func() (driver.Result, error) { return c.driverConn.ExecContext(ctx, query, nil) })
	}
	return call(ctx, c, func() (driver.Result, error) { return c.execAll(ctx, query) })
}

// execAll executes the statements of text, up to the first one that fails.
func (c *conn) execAll(ctx context.Context, text string) (driver.Result, error) {
	raw := c.raw()
	defer raw.SetInterrupt(raw.SetInterrupt(ctx))
	for text != "" {
		s, tail, err := sqliteguard.Prepare(raw, text)
		if err != nil {
			return nil, err
		}
		if s == nil {
			break // a comment
		}
		if n := s.BindCount(); n > 0 {
			err = fmt.Errorf("vfs: a statement with parameters (%d) was given no arguments", n)
		} else {
			err = s.Exec()
		}
		countRows(c.db.actor, s, 0)
		if closed := s.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return nil, err
		}
		text = tail
	}
	if changed := raw.Changes(); changed != 0 {
		return result{raw.LastInsertRowID(), changed}, nil
	}
	return result{}, nil
}

// execFrame executes what begins or ends the transaction of an Update, by a statement that
// is kept. SQLite commits nothing while a statement that writes is under way.
func execFrame(ctx context.Context, c *conn, query string) (driver.Result, error) {
	if query == commitUpdate {
		c.closeRows(errRowsOver)
		if err := c.keysKept(); err != nil {
			return nil, err
		}
	}
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	result, err := s.(driver.StmtExecContext).ExecContext(ctx, nil)
	if closed := s.Close(); err == nil {
		err = closed
	}
	return result, err
}

// An openRows is the rows of a query that were not closed yet.
type openRows interface{ over(why error) }

// closeRows closes the rows that are open. They end with why.
func (c *conn) closeRows(why error) {
	for _, r := range slices.Clone(c.open) {
		r.over(why)
	}
}

// errRowsOver is why rows end that are open when the function of an Update returns.
var errRowsOver = fmt.Errorf("%w: rows that were open were closed with it", ErrTxOver)

// keysKept returns an error if the function of an Update wanted foreign keys off, which they
// aren't.
func (c *conn) keysKept() error {
	h := c.file
	if c.lost != nil || h == nil || h.staged == nil || !h.keys.off || h.keys.deferred {
		return nil
	}
	if on, err := c.raw().Config(sqlite3.DBCONFIG_ENABLE_FKEY); err != nil || !on {
		return err
	}
	return errKeysOn
}

// BeginTx is driver.ConnBeginTx's.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	err := c.enter(ctx)
	if mayWrite := c.db.opts.MayWrite; err == nil && mayWrite != nil && !opts.ReadOnly {
		err = mayWrite(ctx) // in WAL mode no lock of the file would ask
	}
	if err != nil {
		return nil, err
	}
	tx, err := call(ctx, c, func() (driver.Tx, error) { return c.driverConn.BeginTx(ctx, opts) })
	if err != nil {
		return nil, err
	}
	c.tx.Tx, c.tx.open, c.tx.keep = tx, true, opts.ReadOnly && c.queryOnly
	return &c.tx, nil
}

// A connTx is the transaction of a connection, which has one at a time.
type connTx struct {
	driver.Tx
	conn *conn
	open bool // no statement can commit it but its own end
	keep bool // query_only, by which a read-only transaction ends
}

// Commit is driver.Tx's.
func (t *connTx) Commit() error {
	if err := t.conn.usable(); err != nil {
		t.open = false
		return err
	}
	return t.end(t.Tx.Commit)
}

// Rollback is driver.Tx's. What a connection that was lost had begun is rolled back.
func (t *connTx) Rollback() error {
	if t.conn.lost != nil {
		t.open = false
		return nil
	}
	return t.end(t.Tx.Rollback)
}

// end ends the transaction by how. It leaves a connection that only reads one that does:
// the driver ends a read-only transaction by turning query_only off.
func (t *connTx) end(how func() error) error {
	t.open = false
	t.conn.begin()
	_, err := call(context.Background(), t.conn, func() (struct{}, error) {
		err := how()
		if t.keep {
			err = errors.Join(err, t.conn.raw().Exec("PRAGMA query_only=on"))
		}
		return struct{}{}, err
	})
	return err
}

// ask returns what fn returns, which asks SQLite, and otherwise after a panic, now or
// earlier.
func ask[T any](c *conn, otherwise T, fn func() T) (answer T) {
	if answer = otherwise; c.lost != nil {
		return answer
	}
	err := errLeft
	defer c.guard(&err)
	answer, err = fn(), nil
	return answer
}

// explain returns err, that a connection of the pool gave back in ctx, with the reason
// behind it. What is not SQLite's own is returned as it is.
func (c *conn) explain(ctx context.Context, err error) error {
	var code sqlite3.ExtendedErrorCode
	if err == nil || !errors.As(err, &code) {
		return err
	}
	if primary := code.Code(); primary == sqlite3.INTERRUPT || code == sqlite3.ExtendedErrorCode(sqlite3.BUSY) {
		// A wait for the turn to write, which the context ends, is SQLite's BUSY.
		if reason := ctx.Err(); reason != nil {
			return &interruptedError{causedError{err, reason}}
		}
	}
	cause := c.causeOf(code)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return &causedError{err, cause}
}

// causeOf returns what one of the connection's files told SQLite as code, or why the
// database refuses everything, if that is a reason for code.
func (c *conn) causeOf(code sqlite3.ExtendedErrorCode) error {
	if cause := c.told.recall(code); cause != nil {
		return cause
	}
	switch code.Code() {
	case sqlite3.BUSY:
		if code == sqlite3.BUSY_TIMEOUT {
			return ErrSnapshotTooOld // nothing else here is told so
		}
	case sqlite3.FULL:
		// A temporary file doesn't know whose it is.
		if c.temp.refused.Load() != c.tempRefused {
			return ErrTempFull
		}
		return c.db.healthy()
	case sqlite3.READONLY:
		if code == sqlite3.READONLY_ROLLBACK {
			return errCutOff
		}
	case sqlite3.IOERR, sqlite3.CANTOPEN, sqlite3.CORRUPT, sqlite3.NOTADB, sqlite3.PROTOCOL:
		return c.db.healthy()
	}
	return nil
}
