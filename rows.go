package greenroom

import (
	"database/sql"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// A Querier runs a query: a *Tx and what embeds one, a *View, or a *sql.DB or *sql.Tx.
type Querier interface {
	Query(query string, args ...any) (*sql.Rows, error)
}

// Select returns the rows of a query, in their order, and an empty slice if there are none. A T that is a struct is read by the names of the columns: a column goes into the exported field
// with the tag `db:"column"`, or else `json:"column"`, or of that name in any case, and into the first one that fits. Embedded structs are looked through. Any other T, a time.Time and a sql.Scanner is read
// from a single column. Values are converted as by sql.Rows.Scan; NULL takes a pointer, or a type of its own such as sql.Null.
//
// Errors: those of the query; kv.ErrInvalid of a column without a field, and of more columns than T can take.
func Select[T any](q Querier, query string, args ...any) ([]T, error) {
	return selectRows[T](q, -1, query, args)
}

// selectRows is Select of the first rows, as many as most, of all if it is negative.
func selectRows[T any](q Querier, most int, query string, args []any) (all []T, err error) {
	rows, err := q.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() // rows.Err has what may go wrong
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	paths, err := pathsOf(reflect.TypeFor[T](), columns)
	if err != nil {
		return nil, err
	}
	all = []T{}
	into := make([]any, len(columns))
	for len(all) != most && rows.Next() {
		var v T
		for i, path := range paths {
			into[i] = reflect.ValueOf(&v).Elem().FieldByIndex(path).Addr().Interface()
		}
		if paths == nil {
			into[0] = &v
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// SelectOne returns the first row of a query, as Select, and reads no other. Without a row it returns sql.ErrNoRows.
func SelectOne[T any](q Querier, query string, args ...any) (v T, err error) {
	all, err := selectRows[T](q, 1, query, args)
	if err == nil && len(all) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return v, err
	}
	return all[0], nil
}

// pathsOf returns the fields of a struct into which the columns go, and nil for a type that takes a single column.
func pathsOf(t reflect.Type, columns []string) ([][]int, error) {
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() || reflect.PointerTo(t).Implements(reflect.TypeFor[sql.Scanner]()) {
		if len(columns) != 1 {
			return nil, fmt.Errorf("greenroom: %d columns for a %v: %w", len(columns), t, kv.ErrInvalid)
		}
		return nil, nil
	}
	paths := [][]int{}
	for _, column := range columns {
		f, ok := fieldOf(t, column)
		if !ok {
			return nil, fmt.Errorf("greenroom: %v has no field for the column %q: %w", t, column, kv.ErrInvalid)
		}
		paths = append(paths, f.Index)
	}
	return paths, nil
}

// fieldOf returns the field of a struct for a column.
func fieldOf(t reflect.Type, column string) (field reflect.StructField, ok bool) {
	best := 0
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || throughPointer(t, f.Index) {
			continue
		}
		inJSON, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fit := 0
		switch tag := f.Tag.Get("db"); {
		case tag != "":
			if tag == column {
				fit = 3
			}
		case inJSON == column:
			fit = 2
		case strings.EqualFold(f.Name, column):
			fit = 1
		}
		if fit > best {
			field, best = f, fit
		}
	}
	return field, best > 0
}

// throughPointer says that a field is that of a struct to which a pointer leads, which may be nil.
func throughPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}
