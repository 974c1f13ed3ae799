package kv

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
	ErrOtherKey = errors.New("kv: key of another type")
	// ErrMisuse: a key or value can't be used in this way: an incomplete versionstamp
	// that isn't put, a key that Add is of no use for. It is a mistake in the program.
	ErrMisuse = errors.New("kv: misuse of a typed key")
)

// A KeyError says which key something went wrong with.
type KeyError struct {
	Op   string // "get", "put", "scan" and so on
	Type string // the Go type of the key
	Key  []byte // packed, as far as it could be; relative to the scope that it was used in
	Err  error
}

// Error names the operation, the type and the elements of the key, and the reason.
func (e *KeyError) Error() string {
	return fmt.Sprintf("kv: %s %s %s: %s", e.Op, e.Type, keyWords(e.Key), strings.TrimPrefix(e.Err.Error(), "kv: "))
}

// Unwrap returns the reason.
func (e *KeyError) Unwrap() error { return e.Err }

// keyError returns a *KeyError, with a copy of the packed key.
func keyError[K any](op string, packed []byte, err error) error {
	return &KeyError{Op: op, Type: reflect.TypeFor[K]().String(), Key: bytes.Clone(packed), Err: err}
}

// What is done with a typed key, as a KeyError says it.
const (
	opGet    = "get"
	opExists = "exists"
	opPut    = "put"
	opDelete = "delete"
	opMutate = "mutate"
	opScan   = "scan"
	opParse  = "parse"
)
