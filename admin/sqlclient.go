package admin

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"

	"github.com/greenroomdb/greenroom/internal/sqlrun"
)

// A SQL runs SQL on the database of an actor, in the process that has the store, statement by statement, each in a transaction of its own unless
// a BEGIN has begun one. A transaction has 30 seconds, unless Options.TxDeadline of the process says otherwise: then it is rolled back, and the statement that runs is ended. What a statement sets for those after it (a PRAGMA, a temporary table) holds until a
// second has passed without one. It belongs to one goroutine at a time.
type SQL struct {
	conn net.Conn
	in   *gob.Decoder
	mu   sync.Mutex
	out  *gob.Encoder // +checklocks:mu
	inTx bool
}

// SQL returns a session on the database of an actor. With create the first statement makes an actor that doesn't exist. The caller closes it.
func (c *Client) SQL(ctx context.Context, actor string, create bool) (*SQL, error) {
	path := "/v1/actors/" + url.PathEscape(actor) + "/sql"
	if create {
		path += "?create=true"
	}
	conn, err := c.upgrade(ctx, path, sqlProtocol)
	if err != nil {
		return nil, err
	}
	return &SQL{conn: conn, in: gob.NewDecoder(conn), out: gob.NewEncoder(conn)}, nil
}

// Run runs the statements of text, and gives what they return to sink. ran counts those that began. Errors: *sqlrun.Error of a statement, whose Err is an
// *Error; those of the sink, of the process and of the network.
func (s *SQL) Run(ctx context.Context, text string, sink sqlrun.Sink) (ran int, err error) {
	if err := s.send(&sqlRequest{Text: text}); err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.send(&sqlRequest{Cancel: true}) }) // of a connection that is lost Run says it
	defer stop()
	for {
		var e sqlEvent
		if err := s.in.Decode(&e); err != nil {
			s.inTx = false // it went with the connection
			return ran, fmt.Errorf("admin: the process that has the store doesn't answer any more: %w", err)
		}
		switch e.Kind {
		case sqlBegin:
			sink.Begin(e.Columns)
		case sqlRow:
			sink.Row(e.Row)
		case sqlEnd:
			sink.End()
			err = errors.Join(err, sink.Flush())
		case sqlChanged:
			sink.Changed(e.Changed)
		case sqlDone:
			s.inTx = e.InTx
			err = errors.Join(err, sink.Flush())
			if err == nil && e.Err != nil {
				err = e.Err
				if e.Placed {
					err = &sqlrun.Error{Offset: e.Offset, Err: err}
				}
			}
			return e.Ran, err
		}
		if err != nil { // of the sink: the statement is of no use any more
			_ = s.conn.Close()
			s.inTx = false
			return ran, err
		}
	}
}

func (s *SQL) send(req *sqlRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.Encode(req); err != nil {
		return fmt.Errorf("admin: the process that has the store doesn't answer any more: %w", err)
	}
	return nil
}

// InTransaction reports whether a BEGIN waits for its COMMIT.
func (s *SQL) InTransaction() bool { return s.inTx }

// Rollback gives up an open transaction.
func (s *SQL) Rollback() error {
	if err := s.send(&sqlRequest{Rollback: true}); err != nil {
		return err
	}
	var e sqlEvent
	if err := s.in.Decode(&e); err != nil {
		return fmt.Errorf("admin: the process that has the store doesn't answer any more: %w", err)
	}
	s.inTx = e.InTx
	if e.Err != nil {
		return e.Err
	}
	return nil
}

// Close ends the session. What is uncommitted is rolled back.
func (s *SQL) Close() error { return s.conn.Close() }
