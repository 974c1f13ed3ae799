package keys

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Sentinels of typed keys.
var (
	// ErrOtherKey: bytes are not a key of the type that was asked for.
	ErrOtherKey = errors.New("keys: key of another type")
	// ErrMisuse: a key or value can't be used in this way: an incomplete versionstamp
	// that isn't put, a key that Add is of no use for. It is a mistake in the program.
	ErrMisuse = errors.New("keys: misuse of a typed key")
)

// A Error says which key something went wrong with.
type Error struct {
	Op   string // "get", "put", "scan" and so on
	Type string // the Go type of the key
	Key  []byte // packed, as far as it could be; relative to the scope that it was used in
	Err  error
}

// Error names the operation, the type and the elements of the key, and the reason.
func (e *Error) Error() string {
	return fmt.Sprintf("keys: %s %s %s: %s", e.Op, e.Type, keyWords(e.Key), strings.TrimPrefix(e.Err.Error(), "kv: "))
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// keyError returns a *Error, with a copy of the packed key.
func keyError[K any](op string, packed []byte, err error) error {
	return &Error{Op: op, Type: reflect.TypeFor[K]().String(), Key: bytes.Clone(packed), Err: err}
}

// What is done with a typed key, as a Error says it.
const (
	opGet    = "get"
	opExists = "exists"
	opPut    = "put"
	opDelete = "delete"
	opMutate = "mutate"
	opScan   = "scan"
	opParse  = "parse"
)
