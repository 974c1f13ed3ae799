package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"

	"github.com/greenroomdb/greenroom/internal/sqlrun"
)

// An executor runs SQL on one connection: a sqlrun.Session, or one of the process that has the store.
type executor interface {
	Run(ctx context.Context, text string, sink sqlrun.Sink) (ran int, err error)
	InTransaction() bool
	Rollback() error
}

// A session runs SQL on one connection and writes what comes of it.
type session struct {
	executor
	out    *bufio.Writer
	layout layout
	// changed is told how many rows a statement has changed that returns none; nil is not.
	changed func(rows int64)

	printer printer // of the statement that is being run
	printed int     // rows, since it was set to 0
	cells   []cell
}

// withExecutor runs fn with a connection of db, on which nothing else runs. What
// fn leaves uncommitted is rolled back.
func withExecutor(ctx context.Context, db *sql.DB, fn func(executor) error) error {
	s, err := sqlrun.Open(ctx, db)
	if err == nil {
		err = fn(s)
	}
	return errors.Join(err, s.Close())
}

// run runs the statements of p, of which there is one, or none if it is all
// comment. After each one its rows are written and flushed. ran counts those that
// began. An error of SQLite's is a *statementError, in the piece alone; any other is that of out.
func (s *session) run(ctx context.Context, p piece) (ran int, err error) {
	ran, err = s.Run(ctx, p.text, s)
	if at := (*sqlrun.Error)(nil); errors.As(err, &at) {
		err = p.failed(at.Offset, at.Err)
	}
	return ran, err
}

// Begin implements sqlrun.Sink.
func (s *session) Begin(columns []string) {
	s.printer = s.layout.printer(s.out)
	s.printer.begin(columns)
}

// Row implements sqlrun.Sink.
func (s *session) Row(row []sqlrun.Cell) {
	s.cells = s.cells[:0]
	for _, c := range row {
		s.cells = append(s.cells, cell{kind: cellKind(c.Kind), text: c.Text, real: c.Real})
	}
	s.printer.row(s.cells)
	s.printed++
}

// End implements sqlrun.Sink.
func (s *session) End() { s.printer.end() }

// Changed implements sqlrun.Sink.
func (s *session) Changed(rows int64) {
	if s.changed != nil {
		s.changed(rows)
	}
}

// Flush implements sqlrun.Sink.
func (s *session) Flush() error { return s.out.Flush() }

// lines writes the rows of a query as a list, and returns how many there are.
func (s *session) lines(ctx context.Context, query string) (n int, err error) {
	before := s.layout
	defer func() { s.layout = before }()
	s.layout, s.printed = layout{mode: modeList, tty: before.tty}, 0
	_, err = s.run(ctx, piece{text: query})
	if at := (*statementError)(nil); errors.As(err, &at) {
		err = trimmed(at.err) // where in the query is nothing to the user
	}
	return s.printed, err
}
