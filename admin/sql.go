package admin

import (
	"context"
	"encoding/gob"
	"errors"
	"net"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
)

// sqlLinger is for how long a session is kept for the next statement. After that temporary tables and what PRAGMAs have set are gone.
const sqlLinger = time.Second

// A sqlRequest is SQL to be run, or a ROLLBACK, or it ends the statement that runs.
type sqlRequest struct {
	Text             string
	Rollback, Cancel bool
	ctx              context.Context // done when it is cancelled
}

// A sqlEvent is what has happened.
type sqlEvent struct {
	Kind    sqlKind
	Columns []string
	Row     []sqlrun.Cell
	Changed int64
	Ran     int
	Err     *Error
	Placed  bool // Err is of the statement at Offset
	Offset  int
	InTx    bool
}

type sqlKind uint8

const (
	sqlBegin sqlKind = iota
	sqlRow
	sqlEnd
	sqlChanged
	sqlDone
)

// A sqlConn is the connection of a shell. It is a sqlrun.Sink.
type sqlConn struct {
	*Server
	actor    string
	create   bool
	conn     net.Conn
	out      *gob.Encoder // to conn
	requests chan sqlRequest
	cancel   func() // of what runs
	over     error  // why a transaction was rolled back, of which the client doesn't know yet
	lost     error  // of out
}

// read passes the requests on, until the client closes the connection.
func (c *sqlConn) read(ctx context.Context, in *gob.Decoder) {
	defer close(c.requests)
	last := func() {} // cancels the last one
	defer func() { last() }()
	for {
		var req sqlRequest
		if in.Decode(&req) != nil {
			return
		}
		last()
		if req.Cancel {
			continue
		}
		var cancel context.CancelFunc
		req.ctx, cancel = context.WithCancel(ctx)
		last = cancel
		select {
		case c.requests <- req:
		case <-ctx.Done():
			return
		}
	}
}

// serve visits the actor for each burst of requests.
func (c *sqlConn) serve(ctx context.Context) {
	for c.lost == nil {
		req, ok := <-c.requests
		if !ok {
			return
		}
		began := false
		err := c.visit(ctx, c.actor, c.create, func(ctx context.Context, a *greenroom.Actor) error {
			s, err := sqlrun.OpenGuest(ctx, a.SQL())
			if err == nil {
				began = true
				c.burst(ctx, s, req)
			}
			return errors.Join(err, s.Close())
		})
		switch {
		case !began:
			c.done(0, err, false)
		case err != nil:
			c.log.Warn("admin: end of a session of SQL", "actor", c.actor, "error", err)
		}
	}
}

// burst runs req and what follows it soon, or within a transaction that it begins.
func (c *sqlConn) burst(ctx context.Context, s *sqlrun.Session, req sqlRequest) {
	var deadline time.Time // of the transaction that is open
	for c.lost == nil {
		deadline = c.run(ctx, s, &req, deadline)
		wait := sqlLinger
		if s.InTransaction() {
			wait = time.Until(deadline)
		}
		timer := time.NewTimer(wait)
		var ok bool
		select {
		case req, ok = <-c.requests:
		case <-timer.C:
			c.over = c.tooLong()
		case <-ctx.Done():
			c.over = errors.New("the process that has the store closed the actor: the transaction is rolled back")
		}
		timer.Stop()
		if ok {
			continue
		}
		if !s.InTransaction() {
			c.over = nil
		} else if err := s.Rollback(); err != nil {
			c.log.Warn("admin: roll back a transaction", "actor", c.actor, "error", err)
		}
		return
	}
}

// errSQLTime is why a statement is interrupted that takes too long.
var errSQLTime = errors.New("the statement takes too long")

// tooLong is the error of a transaction that was ended because it was open for too long.
func (c *sqlConn) tooLong() error {
	return say(context.DeadlineExceeded, "the transaction was open for longer than %v, and is rolled back", c.txTime)
}

// run runs one request. Before it and after it, deadline is that of the transaction that is open: one that a BEGIN has begun, or else the next statement,
// which is one of its own.
func (c *sqlConn) run(ctx context.Context, s *sqlrun.Session, req *sqlRequest, deadline time.Time) time.Time {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.cancel = func() { cancel(nil) }
	defer context.AfterFunc(req.ctx, c.cancel)()
	if !s.InTransaction() {
		deadline = time.Now().Add(c.txTime)
	}
	timer := time.AfterFunc(time.Until(deadline), func() { cancel(errSQLTime) })
	defer timer.Stop()
	s.Before = func() {
		if !s.InTransaction() {
			deadline = time.Now().Add(c.txTime)
			timer.Reset(c.txTime)
		}
	}
	var ran int
	var err error
	switch {
	case c.over != nil:
		err, c.over = c.over, nil
	case req.Rollback:
		err = s.Rollback()
	default:
		ran, err = s.Run(ctx, req.Text, c)
		if errors.Is(err, sqlrun.ErrInterrupted) && errors.Is(context.Cause(ctx), errSQLTime) {
			err = c.giveUp(s, err)
		}
	}
	c.done(ran, err, s.InTransaction())
	return deadline
}

// giveUp ends the transaction of a statement that was interrupted because of its deadline, and returns an error at the same place that says so.
func (c *sqlConn) giveUp(s *sqlrun.Session, err error) error {
	why := c.tooLong()
	if s.InTransaction() {
		why = errors.Join(why, s.Rollback())
	}
	if at := (*sqlrun.Error)(nil); errors.As(err, &at) {
		return &sqlrun.Error{Offset: at.Offset, Err: why}
	}
	return why
}

// done answers a request.
func (c *sqlConn) done(ran int, err error, inTx bool) {
	e := &sqlEvent{Kind: sqlDone, Ran: ran, InTx: inTx}
	if err != nil {
		if at := (*sqlrun.Error)(nil); errors.As(err, &at) {
			e.Placed, e.Offset, err = true, at.Offset, at.Err
		}
		e.Err, _ = newError(err)
	}
	c.send(e)
}

// send sends an event. A client that takes nothing for as long as a transaction may be open is lost: it keeps the statement from ending.
func (c *sqlConn) send(e *sqlEvent) {
	if c.lost == nil {
		c.lost = errors.Join(c.conn.SetWriteDeadline(time.Now().Add(c.txTime)), c.out.Encode(e))
	}
}

// Begin implements sqlrun.Sink.
func (c *sqlConn) Begin(columns []string) { c.send(&sqlEvent{Kind: sqlBegin, Columns: columns}) }

// Row implements sqlrun.Sink. A client that has gone interrupts the statement.
func (c *sqlConn) Row(row []sqlrun.Cell) {
	c.send(&sqlEvent{Kind: sqlRow, Row: row})
	if c.lost != nil {
		c.cancel()
	}
}

// End implements sqlrun.Sink.
func (c *sqlConn) End() { c.send(&sqlEvent{Kind: sqlEnd}) }

// Changed implements sqlrun.Sink.
func (c *sqlConn) Changed(rows int64) { c.send(&sqlEvent{Kind: sqlChanged, Changed: rows}) }

// Flush implements sqlrun.Sink.
func (c *sqlConn) Flush() error { return c.lost }
