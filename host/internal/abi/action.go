package abi

import (
	"reflect"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// What actors in Go and actors in modules do alike, each with a Context of their own.

// An Action is an action of actors whose turns have a C: its name, and its function over
// values in CBOR, nil if it was declared without one.
type Action[C any] struct {
	Name string
	Run  func(c C, args Raw) (Raw, error)
}

// NewAction returns an action that decodes arguments into an In, and encodes what fn
// returns. Of arguments that don't fit, the error is what refuse makes of it.
func NewAction[C, In, Out any](name string, fn func(c C, in In) (Out, error), refuse func(error) error) Action[C] {
	if fn == nil {
		return Action[C]{Name: name}
	}
	return Action[C]{name, func(c C, args Raw) (Raw, error) {
		var in In
		if err := decodeArgs(args, &in); err != nil {
			return nil, refuse(err)
		}
		out, err := fn(c, in)
		if err != nil {
			return nil, err
		}
		return Encode(cbor.Typed(out))
	}}
}

// NewCommand is NewAction for a function without a result.
func NewCommand[C, In any](name string, fn func(c C, in In) error, refuse func(error) error) Action[C] {
	if fn == nil {
		return Action[C]{Name: name}
	}
	return NewAction(name, func(c C, in In) (Raw, error) { return nil, fn(c, in) }, refuse)
}

// decodeArgs decodes args, which are nothing or one value, into what in points to. A
// struct{} takes anything, and a Raw is args themselves. Where in has bytes args may have a
// text in base64: what came as JSON has no bytes.
func decodeArgs(args Raw, in any) error {
	switch in := in.(type) {
	case *struct{}:
		return nil
	case *Raw:
		*in = args
		return nil
	}
	err := args.Decode(in)
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

// A stater has a state, one value in CBOR: undefined if it was never set. A Context of
// either end is one.
type stater interface {
	RawState() (Raw, error)
	SetRawState(value Raw) error
}

// State returns the state of c as a T, the zero T if it was never set. It is a copy: what is
// done to it changes nothing before it is set.
func State[T any](c stater) (v T, err error) {
	r, err := c.RawState()
	if err != nil {
		return v, err
	}
	return v, r.Decode(&v)
}

// SetState replaces the state of c, for the rest of the turn at once, and for others when the
// turn lands. All of it is encoded, and written whole.
func SetState[T any](c stater, v T) error {
	r, err := Encode(cbor.Typed(v))
	if err != nil {
		return err
	}
	return c.SetRawState(r)
}

// Mutate changes the state of c: fn gets a copy, and what it leaves there is the new state,
// unless it returns an error, which Mutate returns. fn may read c and change other things of it;
// a state that it sets itself is replaced.
func Mutate[T any](c stater, fn func(v *T) error) error {
	v, err := State[T](c)
	if err != nil {
		return err
	}
	if err := fn(&v); err != nil {
		return err
	}
	return SetState(c, v)
}
