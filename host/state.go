package host

import "github.com/greenroomdb/greenroom/host/internal/abi"

// RawState returns the actor's state, with what the turn has made of it; undefined if it
// was never set. It must not be changed.
func (c *Context) RawState() (Raw, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.state != nil {
		return *c.state, nil
	}
	r, err := c.life.state.View()
	if err != nil {
		return nil, err
	}
	return *r, nil
}

// SetRawState replaces the actor's state by one value in CBOR, which it keeps. A state is
// small, and written whole by each turn that sets it; tables belong into the database.
func (c *Context) SetRawState(value Raw) error {
	if err := c.check(); err != nil {
		return err
	}
	if err := checkArgs(value); err != nil {
		return err
	}
	c.state = &value
	return nil
}

// State returns the actor's state as a T, with what the turn has made of it: the zero T
// if it was never set.
func State[T any](c *Context) (T, error) { return abi.State[T](c) }

// SetState replaces the actor's state.
func SetState[T any](c *Context, v T) error { return abi.SetState(c, v) }

// Mutate changes the actor's state: fn gets a copy, and what it leaves there is the new
// state, unless it returns an error.
func Mutate[T any](c *Context, fn func(v *T) error) error { return abi.Mutate(c, fn) }
