package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/internal/sqlrun"
)

// importBytes bounds the SQL that is run at once, unless one row has more.
const importBytes = 64 << 10

// importCSV inserts the rows of a file of CSV into a table, all or none. What is written with .mode csv comes back as it was, but for
// blobs: what has no quotes and is empty is NULL.
func importCSV(sh *shell, ctx context.Context, arg string) error {
	args := dotWords(arg)
	if len(args) != 2 {
		return errors.New(".import wants two arguments: .import FILE TABLE")
	}
	f, err := openInput(args[0])
	if err != nil {
		return err
	}
	i := &csvImport{session: sh.session, csv: csvReader{r: bufio.NewReader(f), line: 1}, table: args[1]}
	err = i.run(ctx)
	var at *csvError
	if errors.As(err, &at) {
		err = &statementError{file: args[0], line: at.line, err: at.err}
	}
	if err == nil {
		i.Changed(i.rows)
	}
	return errors.Join(err, f.Close())
}

// A csvImport is one call of .import.
type csvImport struct {
	*session
	csv     csvReader
	table   string
	columns []string
	rows    int64

	sql   strings.Builder // statements to be run
	lines []int           // where in the file they begin
}

// run inserts the rows in one transaction, or in that which is open.
func (i *csvImport) run(ctx context.Context) error {
	if err := i.query(ctx, "SAVEPOINT greenroom_import", nil); err != nil {
		return err
	}
	err := i.read(ctx)
	if err == nil {
		return i.query(ctx, "RELEASE greenroom_import", nil)
	}
	if i.InTransaction() { // else SQLite has rolled it back
		err = errors.Join(err, i.query(context.WithoutCancel(ctx), "ROLLBACK TO greenroom_import; RELEASE greenroom_import", nil))
	}
	return err
}

// read inserts the rows.
func (i *csvImport) read(ctx context.Context) error {
	// cid, name, type, notnull, dflt_value, pk, hidden
	err := i.query(ctx, "PRAGMA table_xinfo("+quoteText(i.table)+")", func(row []sqlrun.Cell) {
		if string(row[6].Text) == "0" {
			i.columns = append(i.columns, string(row[1].Text))
		}
	})
	if err != nil {
		return err
	}
	isNew := len(i.columns) == 0
	for first := true; ; first = false {
		line := i.csv.line
		row, err := i.csv.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		switch {
		case first && isNew:
			err = i.create(ctx, row)
		case first && slices.EqualFunc(row, i.columns, func(f csvField, column string) bool { return f.text == column }):
		case len(row) == 1 && row[0] == csvField{} && len(i.columns) > 1: // an empty line
		default:
			err = i.insert(ctx, row, line)
		}
		if err != nil {
			return err
		}
	}
	return i.flush(ctx)
}

// create makes the table with the columns that the first line names.
func (i *csvImport) create(ctx context.Context, head []csvField) error {
	for _, f := range head {
		i.columns = append(i.columns, quoteName(f.text)+" TEXT")
	}
	err := i.query(ctx, "CREATE TABLE "+quoteName(i.table)+"("+strings.Join(i.columns, ", ")+")", nil)
	if err != nil {
		return &csvError{1, err}
	}
	return nil
}

// insert adds a row to those that are inserted together.
func (i *csvImport) insert(ctx context.Context, row []csvField, line int) error {
	i.rows++
	i.lines = append(i.lines, line)
	i.sql.WriteString("INSERT INTO " + quoteName(i.table) + " VALUES(")
	for n, f := range row {
		if n > 0 {
			i.sql.WriteByte(',')
		}
		if f == (csvField{}) {
			i.sql.WriteString("NULL")
		} else {
			i.sql.WriteString(textLiteral(f.text))
		}
	}
	i.sql.WriteString(");\n")
	if i.sql.Len() < importBytes {
		return nil
	}
	return i.flush(ctx)
}

// flush inserts the rows that wait.
func (i *csvImport) flush(ctx context.Context) error {
	ran, err := i.Run(ctx, i.sql.String(), rowSink(nil))
	if at := (*sqlrun.Error)(nil); errors.As(err, &at) && ran > 0 {
		err = &csvError{i.lines[ran-1], trimmed(at.Err)}
	}
	i.sql.Reset()
	i.lines = i.lines[:0]
	return err
}

// A csvError is what is wrong with a line.
type csvError struct {
	line int // from 1
	err  error
}

func (e *csvError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }

func (e *csvError) Unwrap() error { return e.err }

// A csvField is one of a row. encoding/csv wouldn't tell NULL from the empty text.
type csvField struct {
	text   string
	quoted bool
}

// A csvReader reads rows of CSV.
//
// https://www.rfc-editor.org/rfc/rfc4180
type csvReader struct {
	r    *bufio.Reader
	line int // that comes next, from 1
	row  []csvField
	buf  []byte
}

// next returns the next row, whose slice the next call overwrites, and io.EOF after the last one.
func (c *csvReader) next() ([]csvField, error) {
	if _, err := c.r.Peek(1); err != nil {
		return nil, err
	}
	if bom, err := c.r.Peek(3); err == nil && c.line == 1 && string(bom) == "\ufeff" {
		if _, err := c.r.Discard(3); err != nil {
			return nil, err
		}
	}
	c.row = c.row[:0]
	for {
		more, err := c.field()
		if err != nil || !more {
			return c.row, err
		}
	}
}

// field reads one field and says whether its row has more.
func (c *csvReader) field() (more bool, err error) {
	c.buf = c.buf[:0]
	begun := c.line
	quoted, open := false, false
	for {
		b, err := c.r.ReadByte()
		switch {
		case err == io.EOF && open:
			return false, &csvError{begun, errors.New("a quote is opened, and not closed")}
		case err == io.EOF:
			b = '\n'
		case err != nil:
			return false, err
		}
		if b == '\n' {
			c.line++
		}
		switch {
		case open && b != '"':
			c.buf = append(c.buf, b)
		case b == '"' && open: // the end, or one half of a quote in it
			open = false
			if next, err := c.r.Peek(1); err == nil && next[0] == '"' {
				c.buf = append(c.buf, '"')
				open = true
				if _, err := c.r.Discard(1); err != nil {
					return false, err
				}
			}
		case b == '"' && !quoted && len(c.buf) == 0:
			quoted, open = true, true
		case b == ',' || b == '\n':
			if n := len(c.buf); b == '\n' && n > 0 && c.buf[n-1] == '\r' && !quoted {
				c.buf = c.buf[:n-1]
			}
			c.row = append(c.row, csvField{string(c.buf), quoted})
			return b == ',', nil
		case quoted && b == '\r': // before the line feed
		case quoted:
			return false, &csvError{c.line, errors.New("there is more behind a closing quote")}
		default:
			c.buf = append(c.buf, b)
		}
	}
}
