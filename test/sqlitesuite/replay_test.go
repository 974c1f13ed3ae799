package sqlitesuite

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/serdes"
)

// A budget is a context that ends after so many questions whether it has. SQLite
// asks at every call and every thousand steps of its virtual machine, so that a
// script that runs on for ever is stopped at the same step wherever it runs.
type budget struct {
	context.Context
	left int
}

func (b *budget) Err() error {
	if b.left--; b.left < 0 {
		return context.Canceled
	}
	return nil
}

// A transcript is what SQLite answered to a script: a line for each row and each
// error.
type transcript []string

// A player runs scripts on one connection.
type player struct {
	conn *sqlite3.Conn
	// bind gives the parameters of a statement their values; nil leaves them NULL.
	bind func(s *sqlite3.Stmt) error
	// row writes down the current row of a statement.
	row func(s *sqlite3.Stmt) []string
	// maxRows bounds the rows that are kept of one statement; 0 keeps all.
	maxRows int
	// resume says that a failed statement doesn't end the script.
	resume bool
}

// play runs the statements of a script and returns what came of them. An error is
// the last one that SQLite returned; it is in the transcript too.
func (p *player) play(script string) (out transcript, last error) {
	for script != "" {
		stmt, tail, err := p.conn.Prepare(script)
		if err == nil && stmt != nil {
			var rows []string
			rows, err = p.step(stmt)
			out = append(out, rows...)
		}
		if err != nil {
			out, last = append(out, "! "+err.Error()), err
			if !p.resume || p.conn.GetInterrupt().Err() != nil {
				return out, last
			}
			if stmt == nil { // it could not be read: go on behind the next semicolon
				_, tail, _ = strings.Cut(script, ";")
			}
		} else if stmt == nil && tail == script {
			break
		}
		script = tail
	}
	return out, last
}

// step runs one statement to its end, and closes it.
func (p *player) step(stmt *sqlite3.Stmt) (rows []string, err error) {
	defer func() {
		if e := stmt.Close(); err == nil {
			err = e
		}
	}()
	if p.bind != nil {
		if err := p.bind(stmt); err != nil {
			return nil, err
		}
	}
	for stmt.Step() {
		if p.maxRows == 0 || len(rows) < p.maxRows {
			rows = append(rows, p.row(stmt)...)
		}
	}
	return rows, stmt.Err()
}

// typedRow is a row as one line that tells types apart, and floats to the bit.
func typedRow(s *sqlite3.Stmt) []string {
	values := make([]string, s.ColumnCount())
	for i := range values {
		switch s.ColumnType(i) {
		case sqlite3.INTEGER:
			values[i] = strconv.FormatInt(s.ColumnInt64(i), 10)
		case sqlite3.FLOAT:
			f := s.ColumnFloat(i)
			values[i] = fmt.Sprintf("%g(%x)", f, math.Float64bits(f))
		case sqlite3.TEXT:
			values[i] = strconv.Quote(string(s.ColumnRawText(i)))
		case sqlite3.BLOB:
			values[i] = fmt.Sprintf("x'%x'", s.ColumnRawBlob(i))
		default:
			values[i] = "NULL"
		}
	}
	return []string{strings.Join(values, "|")}
}

// difference returns the first lines in which two transcripts differ, "" if
// they don't.
func difference(got, want transcript) string {
	if slices.Equal(got, want) {
		return ""
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	at := func(x transcript) string {
		if i >= len(x) {
			return "(the end)"
		}
		return fmt.Sprintf("%.300s", x[i])
	}
	return fmt.Sprintf("line %d of %d and %d: got %s, want %s", i, len(got), len(want), at(got), at(want))
}

// image returns the bytes of a database as a new connection finds them, without
// the change counter, which the VFS makes up.
//
// https://sqlite.org/fileformat2.html#file_change_counter
func (s *site) image(t *testing.T) ([]byte, error) {
	t.Helper()
	c := s.open(t)
	defer closeConn(t, c)
	b, err := serdes.Serialize(c, "main")
	if err == nil && len(b) >= 100 {
		binary.BigEndian.PutUint32(b[24:], 0)
		binary.BigEndian.PutUint32(b[92:], 0)
	}
	return b, err
}

// differentImages says where the images of two databases differ, "" if they
// don't. An image that can't be had is compared by the reason.
func differentImages(t *testing.T, got, want *site) string {
	t.Helper()
	a, errA := got.image(t)
	b, errB := want.image(t)
	switch {
	case fmt.Sprint(errA) != fmt.Sprint(errB):
		return fmt.Sprintf("image: got error %v, want %v", errA, errB)
	case errA != nil || slices.Equal(a, b):
		return ""
	case len(a) != len(b):
		return fmt.Sprintf("image: got %d bytes, want %d", len(a), len(b))
	}
	i := 0
	for a[i] == b[i] {
		i++
	}
	return fmt.Sprintf("image of %d bytes: byte %d is %#x, want %#x", len(a), i, a[i], b[i])
}

func closeConn(t *testing.T, c *sqlite3.Conn) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// play runs a script on a connection, to its end or to the first error.
func play(c *sqlite3.Conn, script string) transcript {
	p := player{conn: c, row: typedRow}
	out, _ := p.play(script) // the error is its last line
	return out
}
