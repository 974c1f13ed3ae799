package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom/internal/sqlrun"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
	"github.com/greenroomdb/greenroom/vfs"
)

// An actor of RivetKit 2.3 whose program has no SQLite, such as one for WebAssembly, sends its SQL here. All of a start of the actor runs on one connection, so that a transaction may
// take several messages. What is uncommitted when the actor stops is rolled back.

const (
	// maxParams bounds the parameters of a message, in bytes, and maxResult the values of an answer.
	maxParams = 128 << 10
	maxResult = 16 << 20
)

// A remoteSQL is the connection.
type remoteSQL struct {
	db      *vfs.DB
	session *sqlrun.Session
}

// run runs statements, with parameters of each.
func (r *remoteSQL) run(ctx context.Context, sql string, params []rp.Value) (rp.Table, error) {
	if sizeOfValues(params) > maxParams {
		return rp.Table{}, remoteError(fmt.Errorf("the parameters have more than %d bytes", maxParams))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sink := &tableSink{full: cancel}
	args := make([]any, len(params))
	for i, v := range params {
		args[i] = v
	}
	if err := r.session.RunWith(ctx, sql, args, sink); err != nil {
		return rp.Table{}, remoteError(err)
	}
	return sink.table, nil
}

// close rolls back what is uncommitted, and closes the connection.
func (r *remoteSQL) close() error { return errors.Join(r.session.Close(), r.db.Close()) }

// remoteError is what the program is told of an error of its SQL.
func remoteError(err error) *rp.SQLiteError {
	return &rp.SQLiteError{Group: "sqlite", Code: "remote_execution_failed", Message: strings.ToValidUTF8(err.Error(), "\ufffd")}
}

// sizeOfValues is how many bytes values have.
func sizeOfValues(list []rp.Value) (n int) {
	for _, v := range list {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
		n += 9
	}
	return n
}

// sizeOfTable is how many bytes a table has, with its names.
func sizeOfTable(t *rp.Table) (n int) {
	for _, name := range t.Columns {
		n += len(name) + 16
	}
	for _, row := range t.Rows {
		n += sizeOfValues(row)
	}
	return n
}

// errResult refuses rows of more than maxResult.
var errResult = fmt.Errorf("the rows have more than %d bytes: read fewer at once", maxResult)

// A tableSink keeps what the last statement with columns returns.
type tableSink struct {
	table rp.Table
	bytes int
	full  func() // ends the statement: the rows are too many
}

// Begin implements sqlrun.Sink.
func (s *tableSink) Begin(columns []string) {
	for i, name := range columns {
		columns[i] = strings.ToValidUTF8(name, "\ufffd")
	}
	s.table = rp.Table{Columns: columns}
	s.bytes = sizeOfTable(&s.table)
}

// Row implements sqlrun.Sink.
func (s *tableSink) Row(cells []sqlrun.Cell) {
	row := make([]rp.Value, len(cells))
	for i, c := range cells {
		switch c.Kind {
		case sqlrun.Int:
			n, _ := strconv.ParseInt(string(c.Text), 10, 64) // as SQLite writes it
			row[i] = n
		case sqlrun.Real:
			row[i] = c.Real
		case sqlrun.Text:
			row[i] = string(bytes.ToValidUTF8(c.Text, []byte("\ufffd")))
		case sqlrun.Blob:
			row[i] = bytes.Clone(c.Text)
		case sqlrun.Null:
		}
	}
	if s.bytes += sizeOfValues(row); s.bytes > maxResult {
		s.full()
		return
	}
	s.table.Rows = append(s.table.Rows, row)
}

// End implements sqlrun.Sink.
func (s *tableSink) End() {}

// Changed implements sqlrun.Sink.
func (s *tableSink) Changed(int64) {}

// Flush implements sqlrun.Sink.
func (s *tableSink) Flush() error {
	if s.bytes > maxResult {
		return errResult
	}
	return nil
}
