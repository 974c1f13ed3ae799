package vfs

import (
	"bytes"
	"reflect"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// A declared is the type that a column was declared with, as far as it changes what a value
// becomes in Go. It is that of go-sqlite3's driver, so that a program gets the same values
// from a pool of this package and from that driver.
type declared uint8

const (
	anyType declared = iota
	intType
	realType
	textType
	blobType
	boolType
	timeType
)

// declaredAs returns the type for what CREATE TABLE says, in capitals.
func declaredAs(decl string) declared {
	switch decl {
	case "INT", "INTEGER":
		return intType
	case "REAL":
		return realType
	case "TEXT":
		return textType
	case "BLOB":
		return blobType
	case "BOOLEAN":
		return boolType
	case "DATE", "TIME", "DATETIME", "TIMESTAMP":
		return timeType
	}
	return anyType
}

// text returns what a TEXT becomes: a time if it is one as go-sqlite3 writes it, or in a
// column for times, and otherwise a string. b is SQLite's.
func (d declared) text(b []byte) any {
	if d != textType {
		if t, ok := writtenTime(b); ok {
			return t
		}
	}
	s := string(b)
	if d == timeType {
		if t, err := sqlite3.TimeFormatAuto.Decode(s); err == nil {
			return t
		}
	}
	return s
}

// number returns what an INTEGER or a REAL becomes.
func (d declared) number(v any) any {
	switch d {
	case timeType:
		if t, err := sqlite3.TimeFormatAuto.Decode(v); err == nil {
			return t
		}
	case boolType:
		switch v {
		case int64(0):
			return false
		case int64(1):
			return true
		}
	}
	return v
}

// writtenTime returns the time that b is the text of, in the form in which go-sqlite3 stores
// a time.Time. It returns none that database/sql would make another text of.
func writtenTime(b []byte) (t time.Time, ok bool) {
	const shortest = len("2006-01-02T15:04:05Z")
	if len(b) < shortest || len(b) > len(time.RFC3339Nano) || b[4] != '-' || b[10] != 'T' || b[16] != ':' {
		return t, false
	}
	t, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return t, false
	}
	var same [len(time.RFC3339Nano)]byte
	return t, bytes.Equal(b, t.AppendFormat(same[:0], time.RFC3339Nano))
}

// scan returns the type in Go of a column's values, any if it wasn't declared.
func (d declared) scan() reflect.Type {
	switch d {
	case intType:
		return reflect.TypeFor[int64]()
	case realType:
		return reflect.TypeFor[float64]()
	case textType:
		return reflect.TypeFor[string]()
	case blobType:
		return reflect.TypeFor[[]byte]()
	case boolType:
		return reflect.TypeFor[bool]()
	case timeType:
		return reflect.TypeFor[time.Time]()
	}
	return reflect.TypeFor[any]()
}
