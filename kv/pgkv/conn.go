package pgkv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/greenroomdb/greenroom/kv"
)

// A conn is one connection, used by one goroutine at a time.
type conn struct {
	pg    *pgconn.PgConn
	sql   *statements
	descs map[*statement]*pgconn.StatementDescription

	// bad says that the connection must not be used again.
	bad bool
	// warned says that the server has warned of something since it was last reset. No
	// statement here gives cause to; what remains is a wait for standbys that was ended
	// from outside.
	warned bool
	// staged says that the session has the table of stage.go.
	staged bool
	// used is when the connection was opened or last given back.
	used time.Time
	// in is the incarnation of the server at its other end.
	in kv.Incarnation
}

// A target is where the store is.
type target struct {
	config *pgconn.Config
	schema string
}

// String names the target without any secret.
func (t *target) String() string {
	c := t.config
	return fmt.Sprintf("%s, database %s, schema %s", net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), c.Database, t.schema)
}

// connKey is where a conn is found in the driver's connection.
const connKey = "greenroom"

// binaryFormat is that of all parameters and results.
var binaryFormat = []int16{1}

// dial opens a connection and prepares everything on it, in one round trip after the
// server's greeting.
func (db *DB) dial(ctx context.Context) (*conn, error) {
	pg, err := pgconn.ConnectConfig(ctx, db.target.config)
	if err != nil {
		return nil, dialError(err)
	}
	c := &conn{pg: pg, sql: db.sql, used: time.Now(), descs: make(map[*statement]*pgconn.StatementDescription, len(db.sql.all))}
	pg.CustomData()[connKey] = c
	return c.begun(ctx, c.setUp(ctx))
}

// begun returns a connection that is being made ready, after a step of that. One that broke
// because the server went away in between is a lostError, as one that didn't come about.
func (c *conn) begun(ctx context.Context, err error) (*conn, error) {
	if err == nil {
		return c, nil
	}
	if code(err) == "" && ctx.Err() == nil && c.pg.IsClosed() {
		err = &lostError{err}
	}
	c.kill()
	return nil, err
}

// dialError turns what the driver says of a connection that failed into something
// that says no more than is good: its sentences name the user and every host.
func dialError(err error) error {
	var pe *pgconn.PgError
	switch {
	case !errors.As(err, &pe):
		return &lostError{err}
	case pe.Code == codeUnknownParameter:
		return errVersion
	case pe.Code == codeUndefinedData:
		return fmt.Errorf("%w: %w", kv.ErrNoStore, clean(pe))
	}
	return pe
}

// A lostError is a connection that broke or didn't come about. It shows only the cause of
// the driver's error, because the rest tells the user, the host and the database.
type lostError struct{ err error }

func (e *lostError) Error() string {
	return "the connection to the server is lost: " + innermost(e.err).Error()
}

// innermost returns what an error wraps, at the end.
func innermost(err error) error {
	for {
		var next error
		switch x := err.(type) {
		case interface{ Unwrap() error }:
			next = x.Unwrap()
		case interface{ Unwrap() []error }:
			if all := x.Unwrap(); len(all) > 0 {
				next = all[len(all)-1]
			}
		}
		if next == nil {
			return err
		}
		err = next
	}
}

// setUp has the session wait for stable storage, whatever the defaults of the server
// are, unless they are stricter.
func (c *conn) setUp(ctx context.Context) error {
	return c.simple(ctx, `select set_config('synchronous_commit',
		case current_setting('synchronous_commit') when 'off' then 'on' else current_setting('synchronous_commit') end, false)`)
}

// prepare prepares the statements of a store, whose tables must be there.
func (c *conn) prepare(ctx context.Context) error {
	if len(c.descs) > 0 {
		return nil
	}
	p := c.pg.StartPipeline(ctx)
	for _, s := range c.sql.all {
		p.SendPrepare(s.name, s.text, s.oids)
	}
	err := p.Sync()
	for _, s := range c.sql.all {
		if err != nil {
			break
		}
		var r any
		if r, err = p.GetResults(); err == nil {
			desc, ok := r.(*pgconn.StatementDescription)
			if !ok {
				err = fmt.Errorf("the server left out an answer")
				break
			}
			desc.Name = s.name // in a pipeline the driver leaves it empty
			c.descs[s] = desc
		}
	}
	if cerr := p.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		c.bad = true
	}
	return err
}

// simple runs statements without parameters, and drops their rows.
func (c *conn) simple(ctx context.Context, text string) error {
	err := c.pg.Exec(ctx, text).Close()
	c.look()
	return err
}

// exec runs one prepared statement, and drops its rows.
func (c *conn) exec(ctx context.Context, s *statement, params ...[]byte) error {
	return c.query(ctx, s, params, nil)
}

// query runs one prepared statement and passes every row to row. The columns of a row
// are valid until row returns.
func (c *conn) query(ctx context.Context, s *statement, params [][]byte, row func(columns [][]byte)) error {
	r := c.pg.ExecStatement(ctx, c.descs[s], params, binaryFormat, binaryFormat)
	for r.NextRow() {
		if row != nil {
			row(r.Values())
		}
	}
	_, err := r.Close()
	c.look()
	return err
}

// look notes whether the connection broke.
func (c *conn) look() {
	if c.pg.IsClosed() {
		c.bad = true
	}
}

// fresh is how long a connection is taken to be what it was when it was given back.
const fresh = time.Second

// alive looks whether the server has hung up, without asking it. To look takes a
// millisecond, so that it is only done after a while, and if another connection broke
// since this one was given back: they often break together.
func (c *conn) alive(broke time.Time) bool {
	if c.bad || c.pg.IsClosed() {
		return false
	}
	if time.Since(c.used) < fresh && c.used.After(broke) {
		return true
	}
	//lint:ignore SA1019 Ping asks the server; what this misses, the next request finds
	return c.pg.CheckConn() == nil
}

// closeTimeout bounds how long a connection may take to say goodbye.
const closeTimeout = 2 * time.Second

// kill closes the connection at once; what it was at is undone when the server notices.
func (c *conn) kill() {
	c.bad = true
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.pg.Close(ctx) // it is gone either way
}

// close says goodbye.
func (c *conn) close() {
	if c.bad {
		c.kill()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = c.pg.Close(ctx) // it is gone either way
}
