package vfs

import (
	"context"
	"database/sql/driver"
	"io"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// A driverRows is what go-sqlite3's rows are to database/sql, and the statement below them.
type driverRows interface {
	driver.Rows
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypeScanType
	NextRow() error // takes a step
	ReadOnly() bool // of the statement
	ColumnCount() int
	ColumnDeclType(i int) string
	ColumnsRaw(dest ...any) error
	counting
}

// A rows is the rows of a query.
//
// go-sqlite3's rows take the first step when the first row is asked for. That is too late:
// before it, database/sql asks for the columns, which are those of the schema that the
// connection has seen last, and a row with more or fewer of them is an error of SQLite's.
// So the first step is taken in QueryContext, and what Next does with a row is done here, as
// go-sqlite3 does it.
type rows struct {
	driverRows
	conn    *conn
	ctx     context.Context // the query's
	columns []string
	types   []declared
	given   int64 // rows that Next has returned
	stepped bool  // the row that SQLite is at was not returned yet
	begun   bool  // Next was called
	err     error // what ended the rows: io.EOF behind the last one
}

// first takes the first step.
func (r *rows) first() error {
	err := r.step()
	if r.err = err; err != nil && err != io.EOF {
		return err
	}
	r.stepped, r.columns = err == nil, r.driverRows.Columns()
	return nil
}

// step takes a step of the statement.
func (r *rows) step() error {
	told := r.conn.told
	told.refused = nil
	err := r.NextRow()
	if (err == nil || err == io.EOF) && told.refused != nil && r.ReadOnly() && r.ColumnCount() > 0 {
		return unanswered(told.refused)
	}
	return err
}

// Columns is driver.Rows's.
func (r *rows) Columns() []string { return r.columns }

// Next is driver.Rows's.
func (r *rows) Next(dest []driver.Value) (err error) {
	if err := r.conn.usable(); err != nil {
		return err
	}
	r.begun = true
	if r.err != nil {
		return r.err
	}
	err = errLeft
	defer r.conn.guard(&err)
	if !r.stepped {
		if r.err = r.step(); r.err != nil {
			if r.err != io.EOF {
				r.err = r.conn.explain(r.ctx, r.err)
			}
			return r.err
		}
	}
	r.stepped = false
	r.given++
	if r.err = r.read(dest); r.err != nil {
		r.err = r.conn.explain(r.ctx, r.err)
	}
	return r.err
}

// read reads the row that SQLite is at.
func (r *rows) read(dest []driver.Value) error {
	if err := r.ColumnsRaw(unsafe.Slice((*any)(unsafe.SliceData(dest)), len(dest))...); err != nil {
		return err
	}
	for i, v := range dest {
		switch v := v.(type) {
		case []byte:
			if len(v) < cap(v) { // a TEXT, behind which SQLite has a NUL
				dest[i] = r.declared(i).text(v)
			}
		case int64, float64:
			dest[i] = r.declared(i).number(v)
		}
	}
	return nil
}

// declared returns the type of column i.
func (r *rows) declared(i int) declared {
	if r.types == nil {
		r.types = make([]declared, len(r.columns))
		for i := range r.types {
			r.types[i] = declaredAs(strings.ToUpper(r.ColumnDeclType(i)))
		}
	}
	return r.types[i]
}

// Close is driver.Rows's.
func (r *rows) Close() (err error) {
	if err := r.conn.usable(); err != nil {
		return err
	}
	if r.driverRows == nil {
		return nil // closed with the transaction
	}
	if i := slices.Index(r.conn.open, openRows(r)); i >= 0 {
		r.conn.open = slices.Delete(r.conn.open, i, i+1)
	}
	err = errLeft
	defer r.conn.guard(&err)
	countRows(r.conn.db.actor, r.driverRows, r.given)
	err = r.driverRows.Close()
	r.driverRows = nil // the statement may use r for its next query
	switch {
	case err == nil:
		return nil
	case r.err != nil && r.err != io.EOF:
		return r.err
	}
	return r.conn.explain(r.ctx, err)
}

// ColumnTypeDatabaseTypeName is driver.RowsColumnTypeDatabaseTypeName's.
func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	return askRows(r, "", func() string { return r.driverRows.ColumnTypeDatabaseTypeName(i) })
}

// ColumnTypeNullable is driver.RowsColumnTypeNullable's.
func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	nullable = askRows(r, false, func() bool {
		nullable, ok = r.driverRows.ColumnTypeNullable(i)
		return nullable
	})
	return nullable, ok
}

// ColumnTypeScanType is driver.RowsColumnTypeScanType's: before the first row the type that
// was declared, and then that of the value.
func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	return askRows(r, reflect.TypeFor[any](), func() reflect.Type {
		if !r.begun {
			return r.declared(i).scan()
		}
		return r.driverRows.ColumnTypeScanType(i)
	})
}

// askRows is ask about rows; those that are closed answer with otherwise.
func askRows[T any](r *rows, otherwise T, fn func() T) T {
	if r.driverRows == nil {
		return otherwise
	}
	return ask(r.conn, otherwise, fn)
}

// over closes rows that were left open. They end with why, unless an error has ended them.
func (r *rows) over(why error) {
	_ = r.Close() // the error is that of the last step, which Next returned
	if r.err == nil {
		r.err = why
	}
}
