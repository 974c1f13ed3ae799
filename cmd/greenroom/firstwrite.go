package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/term"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
	"github.com/greenroomdb/greenroom/internal/visible"
)

// What a session that only looks ends with.
var (
	errWrites  = errors.New("the statement writes")
	errQueries = errors.New("the statement asks for rows")
)

// setting matches statements that set something for the statements after them, although they
// may answer with a row.
var setting = regexp.MustCompile(sqlrun.Beginning + `pragma\b`)

// looked returns an error for a statement that a session without a database doesn't get past.
func looked(stmt *sqlite3.Stmt) error {
	switch {
	case !stmt.ReadOnly():
		return errWrites
	case stmt.ColumnCount() > 0 && !setting.MatchString(stmt.SQL()):
		return errQueries
	}
	return nil
}

// firstWrite reads in up to the first statement that writes, and returns the same lines
// again and the rest. An input that has none, or has a query before it, has nothing to do in
// a database that isn't there: the error is missing then.
//
// What only reads runs on a database in memory: whether a statement writes is SQLite's to
// say, which depends on what is attached, for instance.
func firstWrite(ctx context.Context, in lineSource, missing error) (lineSource, error) {
	seen := &rereader{rest: in}
	err := own(ctx, target{url: "mem:", actor: "new", create: true}, func(a *greenroom.Actor) error {
		s, err := sqlrun.Open(ctx, a.SQL())
		if err == nil {
			s.Check = looked
			err = (&shell{session: &session{executor: s, out: bufio.NewWriter(io.Discard)}}).run(ctx, seen)
		}
		return errors.Join(err, s.Close())
	})
	switch {
	case errors.Is(err, errWrites):
		seen.again = true
		return seen, nil
	case err == nil, errors.Is(err, errQueries), strings.Contains(err.Error(), "no such table"):
		return nil, missing
	}
	return nil, err
}

// A rereader is a source whose lines can be read a second time.
type rereader struct {
	lines []string
	rest  lineSource
	again bool // lines come first
}

func (r *rereader) next(ctx context.Context, prompt string) (string, error) {
	if r.again && len(r.lines) > 0 {
		line := r.lines[0]
		r.lines = r.lines[1:]
		return line, nil
	}
	line, err := r.rest.next(ctx, prompt)
	if err == nil && !r.again {
		r.lines = append(r.lines, line)
	}
	return line, err
}

// confirm asks a person, and returns refused unless the answer is yes.
func confirm(ctx context.Context, src *terminalSource, question string, refused error) error {
	defer func(h term.History) { src.term.History = h }(src.term.History)
	src.term.History = &history{} // the answer isn't SQL
	answer, err := src.next(ctx, question+" [y/N] ")
	answer = strings.ToLower(strings.TrimSpace(answer))
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errDropLine):
		return err
	case answer != "y" && answer != "yes":
		return refused
	}
	return nil
}

// agree asks a person whether what is missing is to be made.
func agree(ctx context.Context, src *terminalSource, missing error) error {
	fmt.Fprintf(visible.Writer(src.term), "%s\n", serving.Message(missing))
	return confirm(ctx, src, "Make it?", missing)
}
