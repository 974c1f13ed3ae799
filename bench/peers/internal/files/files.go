// Package files does bench's SQLite workloads on a file through a database/sql driver, for
// the programs that are peers of Greenroom. It measures nothing: the program that asks it
// for operations takes the time.
package files

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
)

// The table and its rows are those of bench/rows.go.
const (
	createTable = `CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER NOT NULL, b BLOB NOT NULL)`
	insertRow   = `INSERT INTO t(a, b) VALUES(?, ?)`
	blobSize    = 100
	rangeRows   = 100
)

// A workload is an operation that is done again and again.
type workload struct {
	// sql is the statement of an operation.
	sql string
	// loaded says that there are rows before, cache what SQLite may cache of them, in KiB;
	// 0 leaves it alone.
	loaded bool
	cache  int
	run    func(*session) error
}

// workloads are bench's, by their names behind "sqlite/".
var workloads = map[string]workload{
	"insert": {sql: insertRow, run: func(s *session) error { return s.insert(s.stmt) }},
	"bulk":   {sql: insertRow, run: (*session).bulk},
	"point":  {sql: `SELECT a, b FROM t WHERE id = ?`, loaded: true, run: (*session).point},
	"range":  {sql: `SELECT a, b FROM t WHERE id >= ? AND id < ?`, loaded: true, run: (*session).stretch},
	"scan":   {sql: `SELECT count(a), sum(a) FROM t`, loaded: true, cache: 256, run: (*session).scan},
}

// A session is a workload on one connection.
type session struct {
	ctx  context.Context
	conn *sql.Conn
	stmt *sql.Stmt
	rnd  *rand.Rand
	rows int
	a    int64
	b    [blobSize]byte
}

// ErrUsage means that the arguments are not FILE WORKLOAD ROWS.
var ErrUsage = errors.New("files: want the arguments FILE WORKLOAD ROWS")

// Serve does what a peer's program does: args are FILE WORKLOAD ROWS, where ROWS is how many
// rows an operation or the table has. It reads numbers from in, one a line, does as many
// operations, and writes the number to out. It ends with in.
func Serve(ctx context.Context, driver string, args []string, in io.Reader, out io.Writer) (err error) {
	if len(args) != 3 {
		return ErrUsage
	}
	w, ok := workloads[args[1]]
	rows, bad := strconv.Atoi(args[2])
	if !ok || bad != nil {
		return fmt.Errorf("%w: %q", ErrUsage, args)
	}
	db, err := sql.Open(driver, args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s := &session{ctx: ctx, rnd: rand.New(rand.NewPCG(1, 0)), rows: rows}
	if s.conn, err = db.Conn(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.conn.Close()) }()
	if err := s.prepare(w); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stmt.Close()) }()
	return s.serve(w, in, out)
}

// prepare makes the table, fills it if the workload reads, and prepares its statement.
func (s *session) prepare(w workload) error {
	for _, text := range []string{"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", createTable} {
		if _, err := s.conn.ExecContext(s.ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	if w.loaded {
		if err := s.load(); err != nil {
			return err
		}
	}
	if w.cache > 0 {
		if _, err := s.conn.ExecContext(s.ctx, fmt.Sprintf("PRAGMA cache_size = -%d", w.cache)); err != nil {
			return err
		}
	}
	var err error
	s.stmt, err = s.conn.PrepareContext(s.ctx, w.sql)
	return err
}

// load fills the table, and writes the log into the file.
func (s *session) load() (err error) {
	if s.stmt, err = s.conn.PrepareContext(s.ctx, insertRow); err != nil {
		return err
	}
	err = errors.Join(s.bulk(), s.stmt.Close())
	if err == nil {
		_, err = s.conn.ExecContext(s.ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	return err
}

func (s *session) serve(w workload, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		for range n {
			if err := w.run(s); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(out, n); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (s *session) insert(stmt *sql.Stmt) error {
	s.a++
	for i := 0; i+8 <= blobSize; i += 8 {
		binary.LittleEndian.PutUint64(s.b[i:], s.rnd.Uint64())
	}
	_, err := stmt.ExecContext(s.ctx, s.a, s.b[:])
	return err
}

func (s *session) bulk() error {
	tx, err := s.conn.BeginTx(s.ctx, nil)
	if err != nil {
		return err
	}
	stmt := tx.StmtContext(s.ctx, s.stmt)
	for range s.rows {
		if err := s.insert(stmt); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (s *session) point() error {
	id := s.rnd.Int64N(int64(s.rows)) + 1
	var a int64
	var b sql.RawBytes
	rows, err := s.stmt.QueryContext(s.ctx, id)
	if err != nil {
		return err
	}
	if rows.Next() {
		err = rows.Scan(&a, &b)
	}
	if err == nil && (a != id || len(b) != blobSize) {
		err = fmt.Errorf("row %d has a = %d and a blob of %d bytes", id, a, len(b))
	}
	return errors.Join(err, rows.Close())
}

func (s *session) stretch() error {
	from := s.rnd.Int64N(int64(s.rows-rangeRows+1)) + 1
	rows, err := s.stmt.QueryContext(s.ctx, from, from+rangeRows)
	if err != nil {
		return err
	}
	next := from
	for rows.Next() {
		var a int64
		var b sql.RawBytes
		if err := rows.Scan(&a, &b); err != nil || a != next {
			return errors.Join(err, fmt.Errorf("row %d has a = %d", next, a), rows.Close())
		}
		next++
	}
	if next != from+rangeRows {
		return errors.Join(fmt.Errorf("a range has %d rows", next-from), rows.Err(), rows.Close())
	}
	return errors.Join(rows.Err(), rows.Close())
}

func (s *session) scan() error {
	var count, sum int64
	if err := s.stmt.QueryRowContext(s.ctx).Scan(&count, &sum); err != nil {
		return err
	}
	if count != int64(s.rows) {
		return fmt.Errorf("a scan found %d rows, not %d", count, s.rows)
	}
	return nil
}
