// Package sqliteguard knows how go-sqlite3 panics where SQLite itself would return an error:
// for which panics there is a remedy, and what the others say. It has no state.
package sqliteguard

import (
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// Prepare is c.Prepare for every text. go-sqlite3 looks up in the text where an error is,
// and panics if the error is in an object of the schema (a view, a trigger, a CHECK), whose
// text may be longer. Such an error is returned here; its SQL method returns "".
//
// https://sqlite.org/c3ref/errcode.html
func Prepare(c *sqlite3.Conn, text string) (s *sqlite3.Stmt, tail string, err error) {
	err = Padded(text, func(text string) (err error) {
		s, tail, err = c.Prepare(text)
		return err
	})
	return s, tail, err
}

// Padded returns what prepare returns for text, or for text with spaces behind it, if
// go-sqlite3 needs those to look up where an error is. prepare only compiles, so that it can
// be called twice.
func Padded(text string, prepare func(text string) error) error {
	short, err := beyond(text, prepare)
	if short > 0 {
		return prepare(text + strings.Repeat(" ", short))
	}
	return err
}

// beyond calls prepare, and returns by how many bytes text is too short for it.
func beyond(text string, prepare func(text string) error) (short int, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		var from, length int
		re, ok := p.(runtime.Error)
		if !ok {
			panic(p)
		}
		n, _ := fmt.Sscanf(re.Error(), "runtime error: slice bounds out of range [%d:%d]", &from, &length)
		if n != 2 || length != len(text) || from <= length || from > maxText {
			panic(p)
		}
		short = from - length
	}()
	return 0, prepare(text)
}

// maxText bounds the length of a text of SQL, in bytes, in go-sqlite3's build of SQLite.
const maxText = 1e9

// A Reason is why go-sqlite3 panicked.
type Reason int

const (
	// Unknown: a function in Go that SQLite called, or a mistake.
	Unknown Reason = iota
	// NoMemory: SQLite has used up the memory of the connection.
	NoMemory
	// TooDeep: SQLite has used up its stack, which is a part of that memory. It was stopped
	// in the middle of something: the connection is of no use any more.
	TooDeep
	// LongName: a name is longer than go-sqlite3 reads, 1,000,000 bytes. SQLite wasn't
	// called: the connection is as it was.
	LongName
)

// Why returns the reason of a panic with p.
func Why(p any) Reason {
	err, ok := p.(error)
	if !ok {
		return Unknown
	}
	// go-sqlite3 exports none of the values with which it panics.
	switch err.Error() {
	case sqlite3.NOMEM.Error():
		return NoMemory
	case "sqlite3: missing NUL terminator":
		return LongName
	}
	// The stack begins at the address 64 Ki and grows down to 0, behind which addresses are
	// those of the upper half, where the memory of a connection doesn't reach.
	if re, ok := p.(runtime.Error); ok {
		var address uint64
		_, at, _ := strings.Cut(re.Error(), "[")
		if n, _ := fmt.Sscanf(at, "%d", &address); n == 1 && address > math.MaxInt32 && address <= math.MaxUint32 {
			return TooDeep
		}
	}
	return Unknown
}
