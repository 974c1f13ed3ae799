package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"regexp"

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

	plan    bool    // the statement that is being run explains one
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

// explainsPlan matches statements that return the plan of a query.
var explainsPlan = regexp.MustCompile(sqlrun.Beginning + `explain\s+query\s+plan\b`)

// run runs the statements of p, of which there is one, or none if it is all
// comment. After each one its rows are written and flushed. ran counts those that
// began. An error of SQLite's is a *statementError, in the piece alone; any other is that of out.
func (s *session) run(ctx context.Context, p piece) (ran int, err error) {
	s.plan = explainsPlan.MatchString(p.text) && (s.layout.mode == modeTable || s.layout.mode == modeList)
	ran, err = s.Run(ctx, p.text, s)
	if at := (*sqlrun.Error)(nil); errors.As(err, &at) {
		err = p.failed(at.Offset, at.Err)
	}
	return ran, err
}

// Begin implements sqlrun.Sink.
func (s *session) Begin(columns []string) {
	s.printer = s.layout.printer(s.out)
	if s.plan {
		s.printer = &planPrinter{w: s.out}
	}
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

// A rowSink gives rows to a function, nil to none.
type rowSink func(row []sqlrun.Cell)

// Begin implements sqlrun.Sink.
func (rowSink) Begin([]string) {}

// Row implements sqlrun.Sink.
func (f rowSink) Row(row []sqlrun.Cell) {
	if f != nil {
		f(row)
	}
}

// End implements sqlrun.Sink.
func (rowSink) End() {}

// Changed implements sqlrun.Sink.
func (rowSink) Changed(int64) {}

// Flush implements sqlrun.Sink.
func (rowSink) Flush() error { return nil }

// query gives the rows of the shell's own SQL to a function, which may keep nothing of them. Where in it an error is says nothing to
// the user.
func (s *session) query(ctx context.Context, text string, row func([]sqlrun.Cell)) error {
	_, err := s.Run(ctx, text, rowSink(row))
	if at := (*sqlrun.Error)(nil); errors.As(err, &at) {
		err = trimmed(at.Err)
	}
	return err
}

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
