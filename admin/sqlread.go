package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
	"github.com/greenroomdb/greenroom/vfs"
)

// A Schema is the tables, indices, views and triggers of a database, in the order in which they were made.
type Schema struct {
	Tables []SchemaTable `json:"tables"`
	More   bool          `json:"more,omitempty"` // there are more than are answered
}

// A SchemaTable is one of them.
type SchemaTable struct {
	Name string  `json:"name"`
	Type string  `json:"type"` // table, index, view or trigger
	SQL  *string `json:"sql"`  // that made it; null for an index that SQLite made
}

// QueryIn is a query of the database of an actor.
type QueryIn struct {
	SQL  string            `json:"sql"`            // one statement that only reads
	Args []json.RawMessage `json:"args,omitempty"` // null, booleans, numbers and texts, for the parameters of the statement in their order
	Rows int               `json:"rows,omitempty"` // the largest number of rows, up to 1000; 0 means 100
	// Timeout is how long the query may take, in milliseconds, where that is less than the process allows; 0 means as long as that.
	Timeout int `json:"timeout_ms,omitempty"`
}

// A QueryOut is the answer. Integers have all their digits, an infinity is a number too large for a double, and a blob is a text with a literal of SQL in it, X'00FF'.
type QueryOut struct {
	Columns []string            `json:"columns"`
	Rows    [][]json.RawMessage `json:"rows"`
	More    bool                `json:"more"` // there are more rows, beyond the number that was asked for or 4 MiB of values
}

// maxQuery bounds the request of a query, in bytes.
const maxQuery = 1 << 20

// queries has an element for each query that runs in this process. A query takes up to a quarter of a gigabyte of memory, so that few may run at once; others wait.
var queries = make(chan struct{}, 4)

func sqlReads() []route {
	return []route{
		readActor("/schema", "List the tables of the database of an actor.", nil, readSchema),
		{
			method: http.MethodPost, path: "/v1/actors/{actor}/query", in: QueryIn{}, out: QueryOut{}, reads: true,
			what: "Run one statement of SQL that only reads on one state of the database of an actor, in a few seconds.",
			serve: func(s *Server, w http.ResponseWriter, r *http.Request) {
				var out *QueryOut
				in, within, err := queryBody(w, r)
				if err == nil {
					ctx, cancel := context.WithTimeout(r.Context(), min(s.sqlTime, within))
					defer cancel()
					out, err = runQuery(ctx, s.store, r.PathValue("actor"), in)
				}
				if err != nil {
					refuse(w, err)
					return
				}
				reply(w, out)
			},
		},
	}
}

func readSchema(ctx context.Context, v *greenroom.View, _ *query) (*Schema, error) {
	out := &Schema{Tables: []SchemaTable{}}
	read := &sqlrun.Reading{SQL: "SELECT name, type, sql FROM sqlite_schema ORDER BY rowid", Rows: maxLimit, Bytes: readBytes}
	_, more, err := readSQL(ctx, v, read, func(row []sqlrun.Cell) {
		t := SchemaTable{Name: string(row[0].Text), Type: string(row[1].Text)}
		if row[2].Kind != sqlrun.Null {
			text := string(row[2].Text)
			t.SQL = &text
		}
		out.Tables = append(out.Tables, t)
	})
	out.More = more
	return out, err
}

// queryBody reads the request of a query, and for how long that may run.
func queryBody(w http.ResponseWriter, r *http.Request) (read *sqlrun.Reading, within time.Duration, err error) {
	in := &QueryIn{}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuery))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return nil, 0, invalid("the request of query is not what it takes: %v", err)
	}
	if in.Rows < 0 || in.Rows > maxLimit {
		return nil, 0, invalid("rows is a number up to %d, not %d", maxLimit, in.Rows)
	}
	if in.Timeout < 0 {
		return nil, 0, invalid("timeout_ms is a number of milliseconds, not %d", in.Timeout)
	}
	within = math.MaxInt64
	if in.Timeout > 0 && int64(in.Timeout) < math.MaxInt64/int64(time.Millisecond) {
		within = time.Duration(in.Timeout) * time.Millisecond
	}
	read = &sqlrun.Reading{SQL: in.SQL, Rows: in.Rows, Bytes: readBytes}
	if read.Rows == 0 {
		read.Rows = defaultLimit
	}
	for i, text := range in.Args {
		arg, err := sqlArg(text)
		if err != nil {
			return nil, 0, invalid("argument %d: %v", i+1, err)
		}
		read.Args = append(read.Args, arg)
	}
	return read, within, nil
}

// sqlArg returns a value in JSON as an argument of SQL.
func sqlArg(text json.RawMessage) (arg any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&arg); err != nil {
		return nil, err
	}
	switch v := arg.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		return v.Float64()
	case []any, map[string]any:
		return nil, errors.New("it is neither null, a boolean, a number nor a text")
	}
	return arg, nil
}

// enterQueries waits until there is room for one more of queries, which the caller leaves by calling leave.
func enterQueries(ctx context.Context) (leave func(), err error) {
	select {
	case queries <- struct{}{}:
		return func() { <-queries }, nil
	case <-ctx.Done():
		return nil, &Error{Code: "overloaded", Message: "there are as many queries as there may be at once: try again later"}
	}
}

// runQuery runs the query in of an actor, when there is room for one.
func runQuery(ctx context.Context, s *greenroom.Store, actor string, in *sqlrun.Reading) (*QueryOut, error) {
	leave, err := enterQueries(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	out := &QueryOut{Columns: []string{}, Rows: [][]json.RawMessage{}}
	err = viewActor(ctx, s, actor, func(v *greenroom.View) error {
		columns, more, err := readSQL(ctx, v, in, func(row []sqlrun.Cell) {
			values := make([]json.RawMessage, len(row))
			for i, c := range row {
				values[i] = CellJSON(c)
			}
			out.Rows = append(out.Rows, values)
		})
		out.Columns, out.More = append(out.Columns, columns...), more
		return err
	})
	return out, err
}

// readSQL runs a statement on the database that v shows.
func readSQL(ctx context.Context, v *greenroom.View, r *sqlrun.Reading, each func([]sqlrun.Cell)) (columns []string, more bool, err error) {
	if found, err := vfs.Exists(ctx, v.Lower()); err != nil || !found {
		return nil, false, cmp.Or(err, errNoDatabase)
	}
	db, err := v.SQL()
	if err != nil {
		return nil, false, err
	}
	s, err := sqlrun.OpenReader(ctx, db)
	if err == nil {
		columns, more, err = s.Read(ctx, r, each)
	}
	err = errors.Join(err, s.Close())
	switch at := (*sqlrun.Error)(nil); {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = say(ctx.Err(), "the query takes too long, and is ended")
	case errors.Is(err, sqlrun.ErrRowSize):
		err = &Error{Code: "too_large", Message: err.Error()}
	case errors.As(err, &at):
		if e, _ := newError(err); e.Code == "failed" { // what SQLite says of the statement
			err = invalid("%v", at.Err)
		}
	}
	return columns, more, err
}
