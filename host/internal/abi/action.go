package abi

import (
	"reflect"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// What actors in Go and actors in modules do alike, each with a Context and a Raw of their own.

// An Action is an action of actors whose turns have a C, and whose values in CBOR are of type R: its name, and
// its function over such values, nil if it was declared without one.
type Action[C any, R ~[]byte] struct {
	Name string
	Run  func(c C, args R) (R, error)
}

// NewAction returns an action that decodes arguments into an In, and encodes what fn
// returns. Of arguments that don't fit, the error is what refuse makes of it.
func NewAction[R ~[]byte, C, In, Out any](name string, fn func(c C, in In) (Out, error), refuse func(error) error) Action[C, R] {
	if fn == nil {
		return Action[C, R]{Name: name}
	}
	return Action[C, R]{name, func(c C, args R) (R, error) {
		var in In
		if err := decodeArgs(args, &in); err != nil {
			return nil, refuse(err)
		}
		out, err := fn(c, in)
		if err != nil {
			return nil, err
		}
		v := cbor.Typed(out)
		if r, ok := v.(R); ok {
			return r, nil
		}
		return cbor.Marshal(v)
	}}
}

// NewCommand is NewAction for a function without a result.
func NewCommand[R ~[]byte, C, In any](name string, fn func(c C, in In) error, refuse func(error) error) Action[C, R] {
	if fn == nil {
		return Action[C, R]{Name: name}
	}
	return NewAction[R](name, func(c C, in In) (R, error) { return nil, fn(c, in) }, refuse)
}

// decodeArgs decodes args, which are nothing or one value, into what in points to. A
// struct{} takes anything, and an R is args themselves. Where in has bytes args may have a
// text in base64: what came as JSON has no bytes.
func decodeArgs[R ~[]byte](args R, in any) error {
	switch in := in.(type) {
	case *struct{}:
		return nil
	case *R:
		*in = args
		return nil
	}
	err := Raw(args).Decode(in)
	if err == nil {
		return nil
	}
	to := reflect.ValueOf(in).Elem()
	if plain, ok := cbor.FromBase64(args, to.Type()); ok {
		to.SetZero() // of what the first attempt has decoded
		return Raw(plain).Decode(in)
	}
	return err
}

// Args returns in as a value to be encoded for an action: nil for a struct{}.
func Args[In any](in In) any {
	if _, none := any(&in).(*struct{}); none {
		return nil
	}
	return cbor.Typed(in)
}
