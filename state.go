package greenroom

import "github.com/greenroomdb/greenroom/internal/cbor"

// State returns the actor's state as a T, as the transaction or the view shows it: a copy,
// the zero T if it was never set. A state that isn't a T is an error. A persist.Record that
// stands alone, and its Tx, can be given instead, to SetState and Mutate the Tx.
func State[T any](tx interface{ RawState() ([]byte, error) }) (v T, err error) {
	raw, err := tx.RawState()
	if err != nil {
		return v, err
	}
	return v, cbor.Unmarshal(raw, &v)
}

// SetState replaces the actor's state by v, in CBOR: struct fields are named by their tags
// cbor or json. A state is small, and written whole; tables belong in the database.
//
// Errors: those of encoding v; from the commit persist.SizeError, which is ErrTooLarge.
func SetState[T any](tx interface{ SetRawState(value []byte) error }, v T) error {
	raw, err := cbor.Marshal(cbor.Typed(v))
	if err != nil {
		return err
	}
	return tx.SetRawState(raw)
}

// A stater can do both.
type stater interface {
	RawState() ([]byte, error)
	SetRawState(value []byte) error
}

// Mutate changes the actor's state: fn gets a copy, and what it leaves there is the new
// state, unless it returns an error, which Mutate returns.
func Mutate[T any](tx stater, fn func(v *T) error) error {
	v, err := State[T](tx)
	if err == nil {
		err = fn(&v)
	}
	if err != nil {
		return err
	}
	return SetState(tx, v)
}
